"""Checkpoints that are read after a training has saved them, however their path is spelled.

In: a `Program`.  Out: loads behind statements that train and save, or in a loop whose turns do; of loads in one block the first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode
from migrator.facts.python.syntax import Module

_DEPTH = 4


def loads_after_saving(program: Program) -> Iterator[Place]:
    """Loads that come behind statements which train and save checkpoints; of loads in one block the first."""
    blocks: list[list[ast.stmt]] = []
    for module, call in program.calls():
        if program.external(module, call) != "torch.load" or not call.args:
            continue
        statement = module.statement(call)
        block = module.block(statement)
        if any(block is one for one in blocks) or not _comes_after_saving(program, module, statement, 0):
            continue
        blocks.append(block)
        yield Place(module.span(call), module.span(statement), module.segment(call.args[0]))


def _comes_after_saving(program: Program, module: Module, statement: ast.stmt, depth: int) -> bool:
    child: ast.AST = statement
    for ancestor in module.ancestors(statement):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(ancestor, name, None)
            if isinstance(block, list) and child in block:
                turns = name == "body" and isinstance(ancestor, ast.For | ast.While) and not _is_step(ancestor)
                earlier = block if turns else block[: block.index(child)]
                calls = [node for one in earlier for node in calls_in(one)]
                if any(_saves(program, module, c) for c in calls) and any(_trains(program, module, c) for c in calls):
                    return True
        if isinstance(ancestor, FunctionNode):
            sites = program.resolver.call_sites(ancestor) if depth < _DEPTH else []
            return any(_comes_after_saving(program, m, m.statement(c), depth + 1) for m, c in sites)
        child = ancestor
    return False


def _is_step(loop: ast.For | ast.While) -> bool:
    """True for the loop over the batches: what it reads in each turn are no checkpoints of the turn before."""
    return any(
        isinstance(call.func, ast.Attribute) and call.func.attr == "backward"
        for statement in loop.body
        if not isinstance(statement, ast.For | ast.While)
        for call in calls_in(statement)
    )


def _saves(program: Program, module: Module, call: ast.Call, depth: int = 0) -> bool:
    if program.external(module, call) == "torch.save":
        return True
    return any(_saves(program, home, inner, depth + 1) for home, inner in _within(program, module, call, depth))


def _trains(program: Program, module: Module, call: ast.Call, depth: int = 0) -> bool:
    if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
        return True
    return any(_trains(program, home, inner, depth + 1) for home, inner in _within(program, module, call, depth))


def _within(program: Program, module: Module, call: ast.Call, depth: int) -> Iterator[tuple[Module, ast.Call]]:
    """The calls of a project's function that is called."""
    found = program.resolver.callee(module, call) if depth < _DEPTH else None
    if found is not None and isinstance(found[1], ast.FunctionDef):
        yield from ((found[0], inner) for statement in found[1].body for inner in calls_in(statement))


def calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """Calls that are made where the node is run: not those in the functions and classes that it defines."""
    if isinstance(node, FunctionNode | ast.ClassDef):
        return
    if isinstance(node, ast.Call):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from calls_in(child)
