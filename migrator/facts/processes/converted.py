"""What an earlier conversion has put into a program.

In: a module, or a node of it.  Out: whether it is a helper of ours, or stands where the processes agree already, so that a second
run changes nothing.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.python.nodes import dotted
from migrator.facts.python.resolve import Resolver
from migrator.facts.python.syntax import Module

# Definitions that an earlier conversion put there.
_OURS = frozenset(
    {"setup_distributed", "share_random_numbers", "wrap_model", "from_rank_zero", "NoWriter", "SplitDataParallel"}
)
_RANK_TEST = re.compile(r"get_rank\(\)|is_initialized\(\)|\.is_main_process\b")


def is_helpers(module: Module) -> bool:
    """The module of helpers that an earlier conversion put beside the entry."""
    return ast.get_docstring(module.tree) == "What the processes of this program share." or any(
        b.kind == "def" and _is_setup(b.node) for b in module.scope.bindings.get("setup_distributed", ())
    )


def is_joined(resolver: Resolver, entry: Module) -> bool:
    """True when an earlier conversion has already made the entry join the processes."""
    called = {n.id for n in entry.nodes if isinstance(n, ast.Name)}
    if "Accelerator" in called:
        return True
    for name in called:
        if name.startswith("setup_distributed"):  # or with an ending, where the program has one of its own
            found = resolver.definition(entry.imports.get(name, name), entry)
            if found is not None and _is_setup(found[1]):
                return True
    return False


def _is_setup(node: ast.AST) -> bool:
    """The helper that an earlier conversion put there; programs have functions of that name too."""
    told = ast.get_docstring(node) if isinstance(node, ast.FunctionDef) else None
    return (told or "").startswith("Join the process group that torchrun describes")


def is_split_wrapper(node: ast.ClassDef) -> bool:
    """True for the wrapper that an earlier conversion put there."""
    names = {t.id for s in node.body if isinstance(s, ast.Assign) for t in s.targets if isinstance(t, ast.Name)}
    return "splits_batch" in names


def is_settled(module: Module, node: ast.AST) -> bool:
    """True for what one process does already, or all of them take from rank 0."""
    if isinstance(node, ast.Call) and any(
        isinstance(n, ast.IfExp) and _RANK_TEST.search(module.segment(n.test)) for n in ast.walk(node)
    ):
        return True
    child = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.If | ast.IfExp) and child is not ancestor.test:
            if _RANK_TEST.search(module.segment(ancestor.test)):
                return True
        if isinstance(ancestor, ast.Call) and dotted(ancestor.func) == "from_rank_zero":
            return True
        if isinstance(ancestor, ast.FunctionDef | ast.ClassDef) and ancestor.name in _OURS:
            return True
        child = ancestor
    return False
