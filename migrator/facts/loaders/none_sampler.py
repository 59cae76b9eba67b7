"""The name of a sampler that is always None, in old templates, where a sampler can take its place.

In: a `Program` and a loader's call.  Out: the statement that sets the name to None, when only this call reads the name.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument
from migrator.facts.python.syntax import Module, Span


@dataclass(frozen=True, slots=True)
class NoneSampler:
    """`name = None` at `statement`; `is_beside` when the loader's statement stands right below."""

    name: str
    value: Span
    statement: Span
    is_beside: bool


def none_sampler(program: Program, call: Span, statement: Span) -> NoneSampler | None:
    """The variable that the loader takes for its sampler, or None when it has another use."""
    module = program.module_at(call)
    node = next((n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == call), None)
    sampler = argument(node, "sampler", 3) if node is not None else None
    if not isinstance(sampler, ast.Name):
        return None
    setting = [n for n in module.nodes if _sets(n, sampler.id)]
    if len(setting) != 1 or not isinstance(setting[0], ast.Assign) or _others_read(module, sampler.id, call):
        return None
    value = setting[0].value
    if not isinstance(value, ast.Constant) or value.value is not None:
        return None
    block = module.block(setting[0])
    if not any(module.span(s) == statement for s in block[block.index(setting[0]) + 1 :]):
        return None
    place = module.span(setting[0])
    return NoneSampler(sampler.id, module.span(value), place, module.follows(statement, place))


def _sets(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Assign):
        return any(isinstance(t, ast.Name) and t.id == name for t in node.targets)
    return isinstance(node, ast.arg) and node.arg == name


def _others_read(module: Module, name: str, call: Span) -> bool:
    uses = [n for n in module.nodes if isinstance(n, ast.Name) and n.id == name]
    stores = [n for n in uses if not isinstance(n.ctx, ast.Load)]
    return len(stores) != 1 or any(isinstance(n.ctx, ast.Load) and not call.contains(module.span(n)) for n in uses)
