"""Mixed precision is spelled as today's torch spells it.

`torch.cuda.amp.autocast(…)` and `GradScaler(…)` warn once per process; `torch.amp` has the same two with the device as an
argument.  An import that stands under a test for the version, or a `try`, is the program's own answer and stays.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import AddImport, Edit, InsertAfter, Remove, Replace, SetArgument
from migrator.facts.devices.precision import OLD_NAMES, PrecisionCall, old_imports, precision_calls


def check(context: Context) -> Iterator[Diagnostic]:
    imports = old_imports(context.program)
    reason = "`torch.cuda.amp` is deprecated; `torch.amp` is the same"
    for statement, text in imports:
        yield RULE.converted(statement, reason, Remove(statement), InsertAfter(statement, f"{text}\n"))
    replaced = {statement.path for statement, _ in imports}
    for call in precision_calls(context.program):
        if call.name not in OLD_NAMES or (call.is_name and call.at.path not in replaced):
            continue
        if call.positional:
            continue  # the first argument means something else today
        yield RULE.converted(call.at, reason, *_edits(context, call))


def _edits(context: Context, call: PrecisionCall) -> Iterator[Edit]:
    if not call.is_name:
        yield AddImport(call.at, "import torch")
        yield Replace(call.function, f"torch.amp.{call.kind}")
    yield SetArgument(call.at, "device_type" if call.kind == "autocast" else "device", '"cuda"')


RULE = Rule(
    "MG010",
    "amp-names",
    check,
    __doc__ or "",
    hazards=("H35",),
    sources=("https://docs.pytorch.org/docs/stable/amp.html",),
    evaluation=True,
    parallel=False,
)
