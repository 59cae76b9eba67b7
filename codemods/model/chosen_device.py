"""The program's device is the one that the Accelerator chose.

`"cuda" if torch.cuda.is_available() else "cpu"` is right on most machines; where accelerate takes another device (a Mac's, or
the CPU because somebody asked for it), batches moved by the program would leave the model's.  A device that is compared or
shown is left as it is: its index would be seen.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.syntax import Module, dotted

_CHOICE = 'torch.device("cuda"iftorch.cuda.is_available()else"cpu")'


def check(context: Context) -> Iterator[Diagnostic]:
    if not context.accelerate or context.sharing.way not in ("distributed", "batch"):
        return
    module = context.program.entry_module
    for node in module.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        text = module.segment(node.value).replace("'", '"').replace(" ", "")
        name = dotted(node.targets[0])
        if (
            text != _CHOICE
            or name is None
            or any(_is_seen(m, name.rpartition(".")[2]) for m in context.program.modules)
        ):
            continue
        at = module.span(node.value)
        if not context.is_after_start(at):
            continue
        yield RULE.converted(at, "where the model is, too", Replace(at, f"{context.accelerator(at)}.device"))


def _is_seen(module: Module, name: str) -> bool:
    """True when a device of this name is compared, or made into text."""
    for node in module.nodes:
        if (dotted(node) or "").rpartition(".")[2] == name and isinstance(node, ast.Name | ast.Attribute):
            for ancestor in module.ancestors(node):
                if isinstance(ancestor, ast.Compare | ast.JoinedStr | ast.BinOp | ast.Attribute):
                    return True
                if isinstance(ancestor, ast.Call) and (dotted(ancestor.func) or "").rpartition(".")[2] in _SHOWS:
                    return True
                if isinstance(ancestor, ast.stmt):
                    break
    return False


_SHOWS = frozenset(["print", "str", "info", "format", "debug", "log", "write"])
RULE = Rule("MG318", "chosen-device", check, __doc__ or "", hazards=("H109",), keeps=("alone",))
