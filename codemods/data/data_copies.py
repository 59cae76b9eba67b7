"""The machine's memory holds the data once for each process.

A data set that is read whole when it is made was in memory once; each process makes its own now.  Nothing changes in the
training; where memory is short, `mmap_mode="r"` lets all processes look at the same file.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.syntax import Module, argument

_READS = frozenset(["numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "pickle.load", "scipy.io.loadmat"])


def check(context: Context) -> Iterator[Diagnostic]:
    for module, call in context.program.calls():
        name = context.program.external(module, call)
        if name not in _READS or not _fills_data_set(module, call):
            continue
        if name == "numpy.load" and argument(call, "mmap_mode", 1) is not None:
            continue
        advice = ' (mmap_mode="r" would share it)' if name == "numpy.load" else ""
        yield RULE.note(module.span(call), f"every process holds its own copy of this in memory{advice}")


def _fills_data_set(module: Module, call: ast.Call) -> bool:
    """True in the `__init__` of a class with `__getitem__`."""
    scope = module.scope_of.get(call, module.scope)
    owner = scope.owner_class
    method = module.enclosing_function(call)
    return (
        owner is not None
        and isinstance(owner.node, ast.ClassDef)
        and method is not None
        and method.name == "__init__"
        and any(isinstance(s, ast.FunctionDef) and s.name == "__getitem__" for s in owner.node.body)
    )


RULE = Rule("MG207", "data-copies", check, __doc__ or "", applicability="display-only", hazards=("H21",))
