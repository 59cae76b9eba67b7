"""Functions of other modules that can be given the program's Accelerator by their callers.

In: a `Program` whose batches are shared where they are loaded.  Out: the functions that need the object, and those between them
and the entry, with all their calls.  A function stays out when not all of its calls are known, or another program calls it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from migrator.facts.bare import keyed_calls, unwrappings
from migrator.facts.program import Program
from migrator.facts.syntax import Module, Span
from migrator.facts.training import read_training

NAME = "accelerator"


@dataclass(frozen=True, slots=True)
class Handed:
    """A function that takes the Accelerator: its name, the span of its head, its whole span, and its calls."""

    name: str
    head: Span
    whole: Span
    calls: tuple[Span, ...]


@lru_cache(maxsize=2)
def handed_functions(program: Program) -> tuple[Handed, ...]:
    """The functions outside of the entry that take the Accelerator as a parameter."""
    chosen: dict[ast.FunctionDef, Module] = {}
    for span in _places(program):
        if span.path != program.entry_module.path:
            module = program.module_at(span)
            function = _function_at(module, span)
            chain = _chain(program, module, function, 0) if function is not None else None
            chosen.update(chain or {})
    return tuple(
        Handed(
            function.name,
            _head(module, function),
            module.span(function),
            tuple(caller.span(call) for caller, call in program.resolver.call_sites(function)),
        )
        for function, module in chosen.items()
    )


def is_handed(program: Program, at: Span) -> bool:
    """True when the function around a place takes the Accelerator."""
    module = program.module_at(at)
    function = _function_at(module, at)
    return function is not None and any(module.span(function) == one.whole for one in handed_functions(program))


def has_function(module: Module, at: Span) -> bool:
    """True when a place is inside of a function."""
    return _function_at(module, at) is not None


def _places(program: Program) -> Iterator[Span]:
    """Where the converted program needs the object itself."""
    training = read_training(program)
    yield from (place for place in (training.loop, training.epoch_loop) if place is not None)
    yield from (meter.after for meter in training.meters)
    for loop in training.evaluations:
        if loop.share and loop.loader is not None:
            yield from (loop.at, loop.loader.at)
    yield from (place.at for place in unwrappings(program))
    yield from (call.at for call in keyed_calls(program))


def _function_at(module: Module, at: Span) -> ast.FunctionDef | None:
    """The innermost function around a place."""
    found = [n for n in module.nodes if isinstance(n, ast.FunctionDef) and module.span(n).contains(at)]
    return min(found, key=lambda n: module.span(n).end - module.span(n).start, default=None)


def _chain(
    program: Program, module: Module, function: ast.FunctionDef, depth: int
) -> dict[ast.FunctionDef, Module] | None:
    """The function and those through which its callers get the object; None where one of them cannot take it."""
    sites = program.resolver.call_sites(function)
    taken = any(NAME in scope.bindings for scope in module.scopes.values())
    inside = module.span(function.body[0])
    if depth > 3 or taken or not sites or function.name.startswith("__") or program.is_shared(inside):
        return None
    if len(program.resolver.methods.get(function.name, ())) > 1 or not _all_known(program, function, len(sites)):
        return None
    chain = {function: module}
    for caller, call in sites:
        if caller is program.entry_module:
            continue
        outer = _function_at(caller, caller.span(call))
        more = _chain(program, caller, outer, depth + 1) if outer is not None else None
        if more is None:
            return None
        chain.update(more)
    return chain


def _all_known(program: Program, function: ast.FunctionDef, known: int) -> bool:
    """True when every mention of the function's name is one of its known calls."""
    mentions = 0
    for module in program.modules:
        for node in module.nodes:
            name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
            if name == function.name and not (isinstance(node, ast.Attribute) and _is_of_library(module, node)):
                mentions += 1
    return mentions == known


def _is_of_library(module: Module, node: ast.Attribute) -> bool:
    return (module.qualified(node) or "").startswith(("torch.", "numpy.", "torchvision."))


def _head(module: Module, function: ast.FunctionDef) -> Span:
    whole, body = module.span(function), module.span(function.body[0])
    return Span(whole.path, whole.start, body.start, whole.line)
