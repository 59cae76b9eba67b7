"""Where the reading of a step reports what it does not understand."""

from __future__ import annotations

import ast
from typing import Protocol

from migrator.facts.program import Program
from migrator.facts.python.syntax import Module


class Obstacles(Protocol):
    """Takes what speaks against sharing a batch."""

    program: Program
    local_loss: bool  # the user vouches that each share's loss is a mean over its samples

    def obstacle(self, module: Module, node: ast.AST, note: str) -> None: ...


class ObstacleCount:
    """Counts obstacles instead of reporting them."""

    def __init__(self, program: Program):
        self.program, self.local_loss, self.found = program, False, 0

    def obstacle(self, module: Module, node: ast.AST, note: str) -> None:
        self.found += 1
