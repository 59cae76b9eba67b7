"""Checkpoints of a model that was wrapped in a part load into the model that is wrapped whole.

DataParallel around a part puts "module." into the middle of its keys ("features.module.0.weight"), DistributedDataParallel around the
whole puts it in front of all.  Reading takes both; what is saved has the keys of the new wrapper.  For accelerate see MG611.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.checkpoints.reading import bare_argument
from migrator.edits import Replace
from migrator.facts.accelerate.bare import keyed_calls


def check(context: Context) -> Iterator[Diagnostic]:
    parts = list(context.program.parts.values())
    if context.accelerate or not parts:
        return
    told = False
    for call in keyed_calls(context.program):
        if call.kind == "load_state_dict" and call.argument is not None:
            yield RULE.converted(
                call.at,
                f"checkpoints from when only {parts[0].whole}.{parts[0].part} was wrapped load as well",
                Replace(call.model, "$0.module", (call.model,)),
                *bare_argument(context, call),
            )
        elif call.kind == "state_dict" and not told:
            told = True
            yield RULE.note(
                call.at,
                f'new checkpoints have "module." in front of all keys, and not behind "{parts[0].part}.", as intended; old ones'
                " load. --sampling call goes on with the old keys",
            )


RULE = Rule("MG612", "part-keys", check, __doc__ or "", hazards=("H62",), keeps=("compatibility",), needs=("MG301",))
