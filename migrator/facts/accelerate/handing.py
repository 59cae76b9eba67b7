"""Functions and classes of other modules that can be given the program's Accelerator by their callers.

In: a `Program` whose batches are shared where they are loaded.  Out: the functions that need the object, and those between them
and the entry, with all their calls.  A class whose constructor needs it keeps it, for its other methods.  A function stays out
when not all of its calls are known, or another program calls it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from migrator.facts.accelerate.bare import keyed_calls, unwrappings
from migrator.facts.accelerate.preparing import find_preparation
from migrator.facts.program import Program
from migrator.facts.python.mentions import all_known
from migrator.facts.python.syntax import Module, Span
from migrator.facts.training.reading import read_training
from migrator.facts.training.training import Training

NAME = "accelerator"


@dataclass(frozen=True, slots=True)
class Handed:
    """A function that takes the Accelerator: its name, the span of its head, its whole span, and its calls.

    Of a constructor, `first` is the statement before which `self` gets it, and `owner` the whole class.
    """

    name: str
    head: Span
    whole: Span
    calls: tuple[Span, ...]
    self_name: str = ""
    first: Span | None = None
    owner: Span | None = None


@lru_cache(maxsize=2)
def handed_functions(program: Program) -> tuple[Handed, ...]:
    """The functions outside of the entry that take the Accelerator as a parameter."""
    chosen: dict[ast.FunctionDef, Module] = {}
    keepers: set[ast.AST] = set()
    places = [
        (program.module_at(span), _function_at(program.module_at(span), span))
        for span in _places(program)
        if span.path != program.entry_module.path
    ]
    # Constructors first: what their objects keep, other methods need not be given.
    for module, function in sorted(places, key=lambda one: one[1] is None or one[1].name != "__init__"):
        if function is not None and module.parents.get(function) not in keepers:
            chain = _chain(program, module, function, 0)
            chosen.update(chain or {})
            keepers |= {module.parents[f] for f, module in (chain or {}).items() if f.name == "__init__"}
    return tuple(
        _handed(program, module, function)
        for function, module in chosen.items()
        if function.name == "__init__" or module.parents.get(function) not in keepers
    )


def _handed(program: Program, module: Module, function: ast.FunctionDef) -> Handed:
    calls = tuple(caller.span(call) for caller, call in program.resolver.call_sites(function))
    taken = Handed(function.name, _head(module, function), module.span(function), calls)
    if function.name != "__init__":
        return taken
    told = ast.get_docstring(function) is not None and len(function.body) > 1
    first = module.span(function.body[1 if told else 0])
    owner = module.span(module.parents[function])
    return replace(taken, self_name=function.args.args[0].arg, first=first, owner=owner)


def handed_name(program: Program, at: Span) -> str:
    """How the Accelerator is spelled at a place of another module; empty where it is not known there."""
    module = program.module_at(at)
    function = _function_at(module, at)
    if function is None:
        return ""
    for one in handed_functions(program):
        if module.span(function) == one.whole:
            return NAME
        if one.owner is not None and module.parents.get(function) is not None:
            if module.span(module.parents[function]) == one.owner and function.args.args:
                return f"{function.args.args[0].arg}.{NAME}"
    return ""


def has_function(module: Module, at: Span) -> bool:
    """True when a place is inside of a function."""
    return _function_at(module, at) is not None


def _places(program: Program) -> Iterator[Span]:
    """Where the converted program needs the object itself."""
    training = read_training(program)
    yield from (place for place in (training.loop, training.epoch_loop) if place is not None)
    yield from (one.whole.call for one in (training, *training.others) if one.whole is not None)
    yield from (one.epoch_loop for one in training.others if one.epoch_loop is not None)
    for loaders in (True, False):
        yield from prepared_places(program, training, loaders)
    yield from (meter.after for meter in training.meters)
    for loop in training.evaluations:
        if loop.share and loop.loader is not None:
            yield from (loop.at, loop.loader.at)
    yield from (place.at for place in unwrappings(program))
    yield from (call.at for call in keyed_calls(program))


def prepared_places(program: Program, training: Training, loaders: bool) -> Iterator[Span]:
    """Where `prepare` is called, with the loaders or without."""
    found = find_preparation(program, training, loaders)
    if found is not None:
        yield from (found.after, *(one.statement for one in found.early))
    else:
        yield from (wrap.at for wrap in program.wraps)
        yield from (loader.at for loader in training.loaders if loaders)


def needs_it_anyway(program: Program, training: Training | None, at: Span) -> bool:
    """True in a function of the entry that prepares or trains."""
    module = program.module_at(at)
    function = _function_at(module, at)
    if training is None or function is None:
        return False
    places = [*prepared_places(program, training, True), training.loop, training.epoch_loop]
    return any(place is not None and module.span(function).contains(place) for place in places)


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
    if depth > 3 or taken or not sites or program.is_shared(inside):
        return None
    if function.name.startswith("__"):
        if function.name != "__init__" or not _is_plain_class(program, module, function):
            return None
    elif len(program.resolver.methods.get(function.name, ())) > 1 or not all_known(program, function, len(sites)):
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


def _is_plain_class(program: Program, module: Module, constructor: ast.FunctionDef) -> bool:
    """True for a class without subclasses in the program, whose objects are made by name only."""
    owner = module.parents.get(constructor)
    if (
        not isinstance(owner, ast.ClassDef)
        or not constructor.args.args
        or len(program.resolver.family(module, owner)) > 1
    ):
        return False
    made = len(program.resolver.call_sites(constructor))
    return all_known(program, owner, made)


def _head(module: Module, function: ast.FunctionDef) -> Span:
    whole, body = module.span(function), module.span(function.body[0])
    return Span(whole.path, whole.start, body.start, whole.line)
