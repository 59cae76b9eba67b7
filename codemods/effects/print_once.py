"""One process prints, through the Accelerator.

Where every `print` of the program stands where the Accelerator is known by name, each becomes `accelerator.print`.  Otherwise
the standard output of the other processes is closed (MG104): the same result, and one line.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.syntax import Module, Span

# Functions that loader workers run, to which a spawned worker brings no Accelerator.
_WORKERS = ("__getitem__", "__iter__", "collate", "worker")


def check(context: Context) -> Iterator[Diagnostic]:
    for at in plain_prints(context) or ():
        text = f"{context.accelerator(at)}.print"
        yield RULE.converted(at, "one process prints", Replace(at, text), optional=True)


def plain_prints(context: Context) -> list[Span] | None:
    """The `print` of every call; None where one of them, or something else that prints, cannot be put that way."""
    program = context.program
    if not context.accelerate or not program.trains or program.entry.kind in ("early", "library") or program.is_joined:
        return None
    found, module_path = [], program.entry_module.path
    for module, call in program.calls():
        name = module.segment(call.func)
        if name.endswith(("stdout.write", "pprint", "tqdm.write")):
            return None
        if name != "print" or any(k.arg == "file" for k in call.keywords) or program.is_unreached(module, call):
            continue
        at = module.span(call.func)
        known = context.accelerator(at) and (at.path != module_path or context.is_after_start(at))
        if not known or not _runs_in_main(module, call):
            return None
        found.append(at)
    return found


def _runs_in_main(module: Module, call: ast.Call) -> bool:
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, ast.FunctionDef) and any(word in ancestor.name for word in _WORKERS):
            return False
        if isinstance(ancestor, ast.ClassDef) and any("Dataset" in module.segment(base) for base in ancestor.bases):
            return False
    return True


RULE = Rule("MG514", "print-once", check, __doc__ or "", hazards=("H91",), keeps=("once",), needs=("MG104",))
