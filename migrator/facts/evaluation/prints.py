"""What a program prints.

In: a linked program.  Out: the places of `print`.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.syntax import Module, Span

# Functions that loader workers run, to which a spawned worker brings no Accelerator.
_WORKERS = ("__getitem__", "__iter__", "collate", "worker")


@dataclass(frozen=True, slots=True)
class Print:
    """The `print` of a call, and whether the main process of a rank runs it (not the worker of a loader)."""

    at: Span
    in_main: bool


def plain_prints(program: Program) -> list[Print] | None:
    """Every `print` to standard output that can be reached; None where something else prints as well."""
    found: list[Print] = []
    for module, call in program.calls():
        name = module.segment(call.func)
        if name.endswith(("stdout.write", "pprint", "tqdm.write")):
            return None
        if name != "print" or any(k.arg == "file" for k in call.keywords) or program.is_unreached(module, call):
            continue
        found.append(Print(module.span(call.func), _runs_in_main(module, call)))
    return found


def _runs_in_main(module: Module, call: ast.Call) -> bool:
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, ast.FunctionDef) and any(word in ancestor.name for word in _WORKERS):
            return False
        if isinstance(ancestor, ast.ClassDef) and any("Dataset" in module.segment(base) for base in ancestor.bases):
            return False
    return True
