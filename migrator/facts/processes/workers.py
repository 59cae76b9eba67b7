"""Which functions run in workers: of a loader, of a pool of processes, or in a process that the program starts itself.

In: a `Program` and a function.  Out: True where the processes that run it are none of the group's: they can wait for nobody.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted
from migrator.facts.python.syntax import Module

_OF_LOADERS = re.compile(r"^(__getitem__|\w*collate\w*|\w*worker_init\w*)$")
_HANDED = frozenset({"imap", "imap_unordered", "starmap", "starmap_async", "map_async", "apply_async", "submit"})
_POOL = re.compile(r"pool|executor", re.IGNORECASE)


def runs_in_workers(program: Program, module: Module, function: ast.AST) -> bool:
    """True for the items of a data set, what puts them together into a batch, and what a pool or a process is given to run."""
    name = getattr(function, "name", "")
    owner = module.parents.get(function)
    if name == "__iter__" and isinstance(owner, ast.ClassDef):
        return any(base.endswith(".IterableDataset") for base in program.resolver.external_bases(module, owner))
    return bool(_OF_LOADERS.match(name)) or name in _handed_out(program)


@lru_cache(maxsize=2)
def _handed_out(program: Program) -> frozenset[str]:
    """Names of the functions that are given to pools and processes."""
    given = (node for module, call in program.calls() for node in _tasks(program, module, call))
    return frozenset((dotted(node) or "").rpartition(".")[2] for node in given)


def _tasks(program: Program, module: Module, call: ast.Call) -> Iterator[ast.AST]:
    tail = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    owner = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if call.args and (tail in _HANDED or (tail in ("map", "apply") and _POOL.search(owner or ""))):
        yield call.args[0]
    name = program.external(module, call)
    if name.endswith((".Process", ".Pool", ".ProcessPoolExecutor")):
        for keyword, position in (("target", 1), ("initializer", 1)):
            task = argument(call, keyword, position)
            if task is not None:
                yield task
