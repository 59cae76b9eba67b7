"""Read a program's one training loop: which loader, which epochs, what its batches flow into, and what speaks against shares.

In: a `Program`.  Out: a `Training` with the facts that a DistributedSampler conversion needs, and the `obstacles` that speak
against it.  The reading is a whitelist: a batch may be moved, given to the model once, compared with its targets by a plain
mean, and measured; whatever else happens to it is an obstacle, with its place.
"""

from __future__ import annotations

import ast
from dataclasses import replace
from itertools import combinations, permutations

from migrator.facts.evaluation.averages import read_averages
from migrator.facts.evaluation.evaluations import read_evaluations
from migrator.facts.loaders.batch_loops import BatchLoop, batch_loop
from migrator.facts.loaders.batch_uses import check_batch_uses
from migrator.facts.loaders.training_loaders import read_loader
from migrator.facts.networks.branches import BY_CHANCE, BY_SAMPLES
from migrator.facts.networks.forward import PARTIAL, UNUSED
from migrator.facts.networks.parameter_writes import parameter_writes
from migrator.facts.program import Program
from migrator.facts.python.syntax import Module
from migrator.facts.steps.backwards import backward_passes
from migrator.facts.steps.passes import NOT_EXCHANGED, Exchanged, Unproven, exchanged
from migrator.facts.steps.several_passes import WHOLE_DRAW
from migrator.facts.steps.step_functions import Step
from migrator.facts.steps.whole_batch import whole_batch
from migrator.facts.training.epochs import read_epochs
from migrator.facts.training.model_uses import check_model_uses, check_wraps
from migrator.facts.training.phases import runs_beside
from migrator.facts.training.reader import Reader
from migrator.facts.training.shares import read_shares
from migrator.facts.training.trained import check_optimizers
from migrator.facts.training.training import Training
from migrator.facts.training.unfit import unfit


def read_training(program: Program, loss: str = "auto", find_unused: bool = False) -> Training:
    """Read the program's one training loop.

    `loss` is `local` where the user vouches that it is a mean over samples, `global` where it is to see the whole batch; with
    `find_unused` parameters may go unused.
    """
    return _Reading(program, loss, find_unused).read()


class _Reading(Reader):
    second: tuple[Module, ast.Call] | None = None  # backward pass of a step, where all exchange their gradients

    def read(self) -> Training:
        check_wraps(self)
        for module, node, note in unfit(self.program):
            if note == PARTIAL and not self.local_loss:
                self.whole_loss = True  # put together, what the loss leaves out gets zeros, as under DataParallel
            elif note.startswith((UNUSED, BY_SAMPLES, BY_CHANCE)):
                if not self.find_unused:
                    self._add(self.training.left_out, module, node, note)
            else:
                self.obstacle(module, node, note)
        for home, statement in parameter_writes(self.program)[:1]:
            self.obstacle(home, statement, "the forward pass sets parameters by the rows that it sees")
        backwards = backward_passes(self.program)
        for owner, call in () if backwards else self.program.optimizers_given_away[:1]:
            self.obstacle(owner, call, "what trains with this optimizer is not in sight")
        if self.training.obstacles:
            return self.training
        loops: dict[BatchLoop, tuple[Module, ast.Call, Module, Step | None]] = {}
        passes: dict[BatchLoop, list[tuple[Module, ast.Call]]] = {}
        for owner, call in backwards:
            module, loop, step = self._stepping(owner, call)
            if loop is None:
                self.obstacle(owner, call, "this backward pass is in no loop over a loader that could be found")
            else:
                loops[loop] = (owner, call, module, step)
                passes.setdefault(loop, []).append((owner, call))
        for loop, rows in passes.items():
            second = next((row for i, row in enumerate(rows) if not _excludes_all(*row, rows[:i])), None)
            if second is not None:
                self._read_passes(loop, rows, second, len(loops) > 1)
        places = [(module, loop) for loop, (_, _, module, _) in loops.items()]
        if not all(runs_beside(self.program, a, b) for a, b in combinations(places, 2)):
            self.obstacle(*list(loops.values())[1][:2], "there is more than one training loop")
        if self.training.obstacles or not loops:
            return self.training
        loop, (_, _, module, step) = next(iter(loops.items()))
        self.training.loop = module.span(loop)
        self.whole_loss = self.whole_loss or len(loops) > 1
        read_loader(self, module, loop, places[1:])
        read_epochs(self, module, loop)
        self._read_body(module, loop, step)
        for other, (_, _, owner, made) in list(loops.items())[1:]:
            self._read_other(owner, other, made, [place for place in places if place[1] is not other])
        check_model_uses(self, module, loop)
        check_optimizers(self)
        check_batch_uses(self, module, loop)
        read_evaluations(self, module, loop)
        self._check_left_out()
        read_averages(self)
        return self.training

    def _read_passes(
        self, loop: BatchLoop, rows: list[tuple[Module, ast.Call]], second: tuple[Module, ast.Call], is_beside: bool
    ) -> None:
        """Several backward passes in a step: right where each exchanges its gradients."""
        found = None
        if not is_beside and all(batch_loop(self.program, *row) is loop for row in rows):
            found = exchanged(self.program, rows[0][0], loop)
        if isinstance(found, Exchanged) and not self.whole_loss:
            self.second, self.toggles = second, found.toggles
            return
        if isinstance(found, Unproven) and found.note != NOT_EXCHANGED:
            self.obstacle(rows[0][0], found.node, found.note)
        self.obstacle(*second, NOT_EXCHANGED)

    def _read_other(
        self, module: Module, loop: BatchLoop, step: Step | None, beside: list[tuple[Module, BatchLoop]]
    ) -> None:
        """A training loop beside the first: its epochs, and where its batches become whole."""
        self.order_obstacle(module, loop, "there is more than one training loop")
        read_loader(self, module, loop, beside)
        reader = Reader(self.program)
        reader.training.loop = module.span(loop)
        read_epochs(reader, module, loop)
        self.training.obstacles += reader.training.obstacles
        once = self.training.drawn_once
        once += [place for place in reader.training.drawn_once if place not in once]
        reader.training.whole = whole_batch(self, module, loop, step)
        self.training.others.append(reader.training)

    def _check_left_out(self) -> None:
        """Gradients of zero for what a step leaves out start at the wrapper's outputs, which are to be alike on all processes."""
        left_out, whole = self.training.left_out, self.training.whole
        if whole is not None:
            self.training.obstacles += [p for p in left_out if p.note in (BY_SAMPLES, BY_CHANCE)]
        for module, call in self.program.calls() if left_out else ():
            func = call.func
            if isinstance(func, ast.Attribute) and func.attr == "forward":
                if self.program.is_wrapped(module, func.value):
                    self.training.obstacles += left_out

    def _stepping(self, module: Module, call: ast.Call) -> tuple[Module, BatchLoop | None, Step | None]:
        """The loop over batches around a backward pass, directly or around the one call of the function that makes a step."""
        loop = batch_loop(self.program, module, call)
        function = module.enclosing(call, ast.FunctionDef)
        if loop is not None or not isinstance(function, ast.FunctionDef):
            return module, loop, None
        sites = self.resolver.call_sites(function)
        if len(sites) != 1:
            return module, None, None
        caller, site = sites[0]
        return (
            caller,
            batch_loop(self.program, caller, site),
            Step(module, function, site, _is_method(module, function)),
        )

    def _read_body(self, module: Module, loop: BatchLoop, step: Step | None) -> None:
        """Each process goes on with its share where that is known to be the same; else with the whole batch."""
        if self.second is not None:
            self._share(self._shares(module, loop, several=True))
            return
        if not self.whole_loss and step is None:
            shares = self._shares(module, loop)
            if not shares.obstacles or self.local_loss:
                self._share(shares)
                return
            found = exchanged(self.program, module, loop)
            if isinstance(found, Exchanged) and found.calls > 1:
                shares = self._shares(module, loop, several=True)
                if not shares.obstacles:
                    self.toggles = found.toggles
                    self._share(shares)
                    return
        self.training.whole = whole_batch(self, module, loop, step)

    def _shares(self, module: Module, loop: BatchLoop, several: bool = False) -> Training:
        """The loop, read as that of a process with its share of the batch; with what speaks against it."""
        reader = Reader(self.program, "local" if self.local_loss else "auto")
        read_shares(reader, module, loop, several)
        training = reader.training
        if self.training.epoch_loop is None:  # before which processes begin to draw numbers of their own
            for place in training.drawn:
                training.obstacles.append(replace(place, note=WHOLE_DRAW))
        return training

    def _share(self, training: Training) -> None:
        self.training.loss, self.training.meters = training.loss, training.meters
        self.training.drawn = training.drawn
        self.training.drawn_once += training.drawn_once
        self.training.obstacles += training.obstacles


def _excludes_all(module: Module, call: ast.Call, others: list[tuple[Module, ast.Call]]) -> bool:
    """True when none of the other calls runs in a step in which this one does: each is in another branch of one `if`."""
    return all(other is module and _branch_apart(module, call, node) for other, node in others)


def _branch_apart(module: Module, one: ast.AST, other: ast.AST) -> bool:
    outer = list(module.ancestors(other))
    child: ast.AST = one
    for ancestor in module.ancestors(one):
        if ancestor in outer:
            beside = outer[outer.index(ancestor) - 1] if outer.index(ancestor) else other
            if not isinstance(ancestor, ast.If):
                return False
            return any(child in a and beside in b for a, b in permutations((ancestor.body, ancestor.orelse)))
        child = ancestor
    return False


def _is_method(module: Module, function: ast.FunctionDef) -> bool:
    return module.scopes[function].self_name is not None and isinstance(module.parents[function], ast.ClassDef)
