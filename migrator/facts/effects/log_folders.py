"""Where a program asks the writer of its log for something: the folder that it chose.

In: a `Program`.  Out: `writer.log_dir`, `writer.get_logdir()`, `writer.file_writer.get_logdir()`, not yet agreed on by all processes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.model import Place
from migrator.facts.processes.converted import is_settled
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module

_FOLDERS = frozenset({"log_dir", "logdir", "_log_dir", "_logdir"})
_INSIDE = frozenset({"file_writer", "_file_writer"})


def log_folders(program: Program) -> Iterator[Place]:
    """Each expression that has the folder of a summary writer for its value."""
    if not any("SummaryWriter" in module.text for module in program.modules):
        return
    for module in program.modules:
        for node in module.nodes:
            asked = _asked(node)
            if asked is not None and _is_writer(program, module, asked) and not is_settled(module, node):
                yield Place(module.span(node), module.span(module.statement(node)), module.segment(node))


def _asked(node: ast.AST) -> ast.expr | None:
    """The writer that is asked."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get_logdir":
        writer = node.func.value
    elif isinstance(node, ast.Attribute) and node.attr in _FOLDERS and isinstance(node.ctx, ast.Load):
        writer = node.value
    else:
        return None
    return writer.value if isinstance(writer, ast.Attribute) and writer.attr in _INSIDE else writer


def _is_writer(program: Program, module: Module, node: ast.expr) -> bool:
    if dotted(node) is None:
        return False
    return any(value.name.endswith("SummaryWriter") for value in program.resolver.values(module, node))
