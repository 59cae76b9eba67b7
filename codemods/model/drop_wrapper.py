"""A program that only evaluates needs no wrapper.

Evaluation, demonstration and export run on one GPU; a wrapper made there only to load prefixed checkpoints goes, and the
prefix is taken off the keys where a checkpoint is loaded into the model.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.checkpoints.reading import bare_argument
from migrator.edits import Edit, Inline, Remove, Replace
from migrator.facts.wraps.part_wraps import part_loads

_PLAIN = '{key.removeprefix("module."): value for key, value in $0.items()}'


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    if context.sharing.way != "alone":
        return
    for wrap in program.wraps:
        if wrap.kind == "functional":
            arguments = program.functional_call(wrap)
            if arguments is None:
                yield RULE.question(wrap.at, "the inputs of this call could not be read: call the module itself")
                continue
            edits: list[Edit] = [Replace(wrap.at, f"$0({arguments[0]})", (wrap.inner, *arguments[1]))]
        elif wrap.target == wrap.inner_text and wrap.outer == wrap.at and wrap.conditional is None:
            edits = [Remove(wrap.statement)]
        else:
            edits = [Replace(wrap.conditional or wrap.at, "$0", (wrap.inner,))]
            guard = program.inlined_guard(wrap)
            if guard is not None:
                edits.append(Inline(guard.at, guard.orelse))
        yield RULE.converted(wrap.at, "evaluation runs on one GPU, and needs no wrapper", *edits)
    of_parts = part_loads(program)
    for load in program.wrapped_loads:
        if any(call.argument == load.at for call, _ in of_parts):
            continue
        yield RULE.converted(
            load.at, "checkpoints of the wrapped model load into the bare one", Replace(load.at, _PLAIN, (load.at,))
        )
    for call, part in of_parts:
        reason = f"checkpoints from when {part.whole}.{part.part} was wrapped load into the bare model"
        yield RULE.converted(call.at, reason, *bare_argument(context, call, [part.part]))
    for access in program.module_accesses:
        yield RULE.converted(access.at, "the model itself", Replace(access.at, access.note))


RULE = Rule(
    "MG309",
    "drop-wrapper",
    check,
    __doc__ or "",
    hazards=("H62", "H96"),
    evaluation=True,
    together=True,
    parallel=False,
)
