"""Where a program says itself how its processes meet.

In: a linked program.  Out: the assignments to the variables of the environment that a launcher sets.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.syntax import Span

_NAMES = frozenset(["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"])


def launcher_variables_set(program: Program) -> Iterator[Span]:
    """Those that stand under no test: a branch of the program's own stays behind its test."""
    for module in program.modules:
        for node in module.nodes:
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target = node.targets[0]
            if not isinstance(target, ast.Subscript) or module.qualified(target.value) != "os.environ":
                continue
            if not isinstance(target.slice, ast.Constant) or target.slice.value not in _NAMES:
                continue
            if not program.tests_around(module.span(node)):
                yield module.span(node)
