"""Training loops of one program: which of them never disturb each other.

In: two places in steps.  Out: True where one runs instead of the other, in another branch of one `if`, or both run in the turns of
one loop over epochs.  Phases that follow each other are not among them: what is made between them is made with random numbers.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode
from migrator.facts.python.syntax import Module

_DEPTH = 6


def runs_beside(program: Program, one: tuple[Module, ast.AST], other: tuple[Module, ast.AST]) -> bool:
    """True for loops in branches of one `if`, and for loops in one loop over epochs."""
    first, second = list(_around(program, *one)), list(_around(program, *other))
    for i, node in enumerate(first):
        if node in second:
            j = second.index(node)
            if not i or not j:
                return False  # one is inside of the other
            if isinstance(node, ast.If):
                blocks = (node.body, node.orelse)
                return any(first[i - 1] in a and second[j - 1] in b for a, b in (blocks, blocks[::-1]))
            return isinstance(node, ast.For | ast.While)
    return False


def _around(program: Program, module: Module, node: ast.AST) -> Iterator[ast.AST]:
    """The node and everything around it, also around the one call of its function."""
    yield node
    for _ in range(_DEPTH):
        function = None
        for ancestor in module.ancestors(node):
            yield ancestor
            if isinstance(ancestor, FunctionNode):
                function = ancestor
                break
        sites = program.resolver.call_sites(function) if function is not None else []
        if len(sites) != 1:
            return
        module, node = sites[0]
        yield node
