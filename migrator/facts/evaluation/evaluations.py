"""The loops that evaluate, and whether each can be shared out.

In: a `Reader` and the training loop.  Out: `EvaluationLoop` facts.
"""

from __future__ import annotations

import ast

from migrator.facts.evaluation.evaluated import is_always_wrapped, unshared_networks
from migrator.facts.loaders.asked_lengths import asked_length
from migrator.facts.loaders.batch_loops import BatchLoop, loaders_of
from migrator.facts.loaders.iterators import Loaders
from migrator.facts.loaders.loaders import for_loops, iterated
from migrator.facts.loaders.training_loaders import loader_of
from migrator.facts.python.made_of import definitions
from migrator.facts.python.nodes import argument, has_unpacking
from migrator.facts.python.syntax import Module, Span
from migrator.facts.steps.flow import Flow
from migrator.facts.training.reader import Reader
from migrator.facts.training.shares import meters_of
from migrator.facts.training.training import EvaluationLoop


def read_evaluations(reader: Reader, module: Module, training_loop: BatchLoop) -> None:
    for owner, loop in for_loops(reader.program):
        if loop is training_loop:
            continue
        found = _here(reader, owner, loop, loaders_of(reader.program, owner, loop))
        if len(found) != 1:
            continue
        if any(
            isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "backward"
            for n in ast.walk(loop)
        ):
            continue
        reader.training.evaluations.append(_evaluation(reader, owner, loop, *found[0]))


def _here(reader: Reader, module: Module, loop: ast.For, found: Loaders) -> Loaders:
    """Of the loaders that the loop's name may hold somewhere those that it may hold there."""
    inner = iterated(reader.program, module, loop.iter)
    if len(found) < 2 or not isinstance(inner, ast.Name):
        return found
    here = [value for _, value in definitions(module, loop, inner.id)]
    return [one for one in found if one[1] in here] if all(v in [call for _, call in found] for v in here) else found


def _evaluation(reader: Reader, module: Module, loop: ast.For, loader_module: Module, call: ast.Call) -> EvaluationLoop:
    probe = Reader(reader.program)
    flow = Flow(probe, module, loop, evaluation=True)
    flow.follow()
    uses = tuple(flow.model_calls)
    why = probe.training.obstacles[0].note if probe.training.obstacles else flow.uncountable
    loader = loader_of(reader, loader_module, call, training=False)
    shuffle = argument(call, "shuffle", 2)
    if not why and (
        has_unpacking(call)
        or (argument(call, "sampler", 3) is not None and not (loader is not None and loader.keeps_order))
        or argument(call, "batch_sampler", 4) is not None
    ):
        why = "its loader has a sampler of its own"
    if not why and shuffle is not None and not (isinstance(shuffle, ast.Constant) and not shuffle.value):
        why = "its loader shuffles"
    if not why and (loader is None or loader.batch is None):
        why = "its loader has no batch size"
    if not why and not uses:
        why = "it does not run the wrapped model"
    if not why and not all(is_always_wrapped(reader.program, *_at(reader, use)) for use in uses):
        why = "it also runs another network than the wrapped model"
    if not why and not flow.figures:
        why = "what it adds up was not recognised"
    if not why and not isinstance(
        module.statement(call) if loader_module is module else loader_module.statement(call), ast.Assign
    ):
        why = "its loader has no name of its own"
    elsewhere = [
        o
        for o in for_loops(reader.program)
        if o[1] is not loop and any(c is call for _, c in loaders_of(reader.program, *o))
    ]
    if not why and elsewhere:
        why = "its loader is read in several places"
    if not why and loader is not None:
        asked = asked_length(reader, loader.at, module.span(loop))
        why = f"{asked} would be that of this process's share" if asked else ""
    meters = list(meters_of(reader, module, loop, flow))
    others = unshared_networks(reader.program, module, loop)
    return EvaluationLoop(module.span(loop), loader, tuple(meters), not why, uses, why, others)


def _at(reader: Reader, use: Span) -> tuple[Module, ast.AST]:
    module = reader.program.module_at(use)
    return module, next(n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) == use)
