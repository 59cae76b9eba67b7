"""Synchronised batch norm of the program's own, written for the threads of DataParallel.

In: a `Program`.  Out: uses of such layers with the torch layer of the same meaning, and calls that register callbacks for them.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.nodes import called_name
from migrator.facts.python.syntax import Module, Span

_LAYER = re.compile(r"Synchronized(BatchNorm[123]d)")


def own_sync_norms(program: Program) -> list[Place]:
    """Uses of vendored synchronised layers outside the files that define them; the note is torch's plain layer."""
    found = []
    for module in program.modules:
        if "Sync" not in module.text or _defines(module):
            continue
        for node in module.nodes:
            if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            tail = node.attr if isinstance(node, ast.Attribute) else node.id
            match = _LAYER.fullmatch(tail)
            if match is None or isinstance(module.parents.get(node), ast.Attribute):
                continue
            if (program.resolver.external_name(module, node) or "").startswith("torch."):
                continue
            place = module.span(node)
            found.append(Place(place, module.span(module.statement(node)), module.segment(node), match[1]))
    return found


def _defines(module: Module) -> bool:
    return any(isinstance(n, ast.ClassDef) and n.name.startswith("Synchronized") for n in module.tree.body)


def replication_callbacks(program: Program) -> list[Span]:
    """Statements that call `patch_replication_callback(model)`."""
    found = []
    for module, call in program.calls():
        name = called_name(call)
        statement = module.statement(call)
        known = program.resolver.callee(module, call) is not None  # then MG324 has read what it does
        if name == "patch_replication_callback" and isinstance(statement, ast.Expr) and not known:
            found.append(module.span(statement))
    return found
