"""Data sets that read whole files into memory.

In: a linked program.  Out: the calls that read them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument
from migrator.facts.python.syntax import Module, Span

_READS = frozenset(["numpy.load", "numpy.loadtxt", "numpy.genfromtxt", "pickle.load", "scipy.io.loadmat"])


def read_into_data_sets(program: Program) -> Iterator[tuple[Span, str]]:
    """Each call in the `__init__` of a data set, and the library's name of what is called."""
    for module, call in program.calls():
        name = program.external(module, call)
        if name not in _READS or not _fills_data_set(module, call):
            continue
        if name == "numpy.load" and argument(call, "mmap_mode", 1) is not None:
            continue
        yield module.span(call), name


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
