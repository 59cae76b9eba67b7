"""Whether wrapped networks are told apart by the calls that wrap them.

In: calls of DataParallel.  Out: True where each is made once, and no two of them wrap the same network: an exchange of gradients that
one of them is armed for is then no other's.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.syntax import Module


def are_apart(program: Program, wraps: set[ast.AST]) -> bool:
    """True where each wrap stands for one network of its own; a single wrap that is made once or not at all does too."""
    seen: set[ast.AST] = set()
    for wrap in wraps:
        module, call, *_ = program.wrap_calls.nodes[wrap]
        inner = call.args[0] if call.args else None
        made = {v.node for v in program.resolver.values(module, inner) if v.node is not None} - wraps
        if not _is_made_once(program, module, call):
            return False
        if len(wraps) > 1 and (not made or made & seen):
            return False
        seen |= made
    return True


def _is_made_once(program: Program, module: Module, node: ast.AST, depth: int = 3) -> bool:
    """True for a place that is in no loop, also around the one call of its function."""
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.For | ast.While | ast.ListComp | ast.DictComp | ast.GeneratorExp):
            return False
        if isinstance(ancestor, ast.FunctionDef):
            sites = program.resolver.call_sites(ancestor)
            if len(sites) > 1:
                return False
            return not sites or (depth > 0 and _is_made_once(program, *sites[0], depth - 1))
    return True
