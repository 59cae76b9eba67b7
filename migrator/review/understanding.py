"""The program as the tool understood it: a map by which a person sees at once whether it was understood wrongly.

In: a `Program`.  Out: groups of places, in the order in which a training program is read.  What was looked for and not found
is a group with a sentence in the place of its places.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.accelerate.preparing import is_optimizer
from migrator.facts.loaders.loaders import DATA_LOADER
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode
from migrator.facts.python.syntax import Module, Span
from migrator.facts.steps.steps import optimizer_steps
from migrator.facts.training.reading import read_training
from migrator.facts.training.training import Training


@dataclass(frozen=True, slots=True)
class Seen:
    """A place of the program: its text in one line, where it is, and what it was taken for."""

    text: str
    at: Span
    note: str = ""


@dataclass(frozen=True, slots=True)
class Group:
    """What belongs together; `missing` says what was not found, where there is nothing to show."""

    name: str
    seen: tuple[Seen, ...]
    missing: str = ""


def understand(program: Program) -> list[Group]:
    """The map of a program."""
    training = read_training(program) if program.wraps and program.trains else Training()
    groups = [
        Group("Entry", tuple(_entry(program)), "nothing here is run when the file is: it is a library"),
        Group(
            "Wrapped model", tuple(_models(program)), "" if program.existing_ddp else "no call of torch's DataParallel"
        ),
        Group("Distributed already", tuple(_distributed(program)), ""),
        Group("Data loaders", tuple(_loaders(program, training)), "no DataLoader of torch"),
        Group("Optimizers", tuple(_optimizers(program)), "no optimizer of torch"),
        Group("Schedules", tuple(_calls(program, "lr_scheduler")), ""),
        Group("Epochs", tuple(_loop(program, training.epoch_loop)), _not_found(program, training, "epochs")),
        Group("Training loop", tuple(_training_loops(program, training)), _not_found(program, training, "batches")),
        Group("Steps", tuple(_steps(program)), ""),
        Group("Evaluation", tuple(_evaluations(program, training)), ""),
        Group("Saves and logs", tuple(_effects(program)), ""),
        Group("Loads", tuple(_calls(program, "torch.load")), ""),
        Group("In the way of a cheaper conversion", tuple(_obstacles(program, training)), ""),
    ]
    return [group for group in groups if group.seen or group.missing]


def _seen(program: Program, at: Span, note: str = "") -> Seen:
    """A place with the text of its line, or of the expression where that is longer."""
    return Seen(" ".join(program.text(at).split()), at, note)


def _head(program: Program, at: Span, note: str = "") -> Seen:
    """The first line of a compound statement."""
    module = program.module_at(at)
    return Seen(" ".join(module.line_text(at.line).split()), at, note)


def _node(module: Module, at: Span) -> ast.AST | None:
    return next((n for n in module.nodes if isinstance(n, ast.expr | ast.stmt) and module.span(n) == at), None)


def _entry(program: Program) -> Iterator[Seen]:
    entry = program.entry
    if entry.first is not None:
        told = {
            "guard": "the first statement under the main guard",
            "flat": "the first statement that does something: a script without functions around it",
            "early": "stands above the main guard: those who import the file run it too",
        }
        yield _head(program, entry.first, told.get(entry.kind, ""))


def _models(program: Program) -> Iterator[Seen]:
    for wrap in program.wraps:
        tests = [guard.test for guard in wrap.guards if not guard.is_entry]
        note = f"wraps `{wrap.inner_text}`" if len(wrap.inner_text) < 60 else ""
        note += (" only if " + " and ".join(f"`{test}`" for test in tests)) if tests and note else ""
        yield _seen(program, wrap.statement, note)


def _distributed(program: Program) -> Iterator[Seen]:
    for place in program.existing_ddp:
        yield _seen(program, place.at)


def _loaders(program: Program, training: Training) -> Iterator[Seen]:
    roles = {loader.at: "the training loader" for loader in training.loaders}
    roles |= {loop.loader.at: "read by an evaluation" for loop in training.evaluations if loop.loader is not None}
    for module, call in program.calls():
        if program.external(module, call) in DATA_LOADER:
            at = module.span(call)
            role = roles.get(at, "not followed any further" if program.wraps else "")
            yield _seen(program, module.span(module.statement(call)), role)


def _optimizers(program: Program) -> Iterator[Seen]:
    for module, call in program.calls():
        if is_optimizer(program.external(module, call)):
            yield _seen(program, module.span(module.statement(call)))


def _calls(program: Program, wanted: str) -> Iterator[Seen]:
    for module, call in program.calls():
        name = program.external(module, call)
        if name == wanted or (f".{wanted}." in name and name.rpartition(".")[2][:1].isupper()):
            yield _seen(program, module.span(module.statement(call)))


def _loop(program: Program, at: Span | None, note: str = "") -> Iterator[Seen]:
    if at is not None:
        yield _head(program, at, note)


def _training_loops(program: Program, training: Training) -> Iterator[Seen]:
    """The one loop that was followed; without it the loops around backward passes, as they stand."""
    if training.loop is not None:
        yield _head(program, training.loop, f"the loss is `{training.loss}`" if training.loss else "")
        return
    found: dict[Span, None] = {}
    for module, call in program.calls():
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward":
            for ancestor in module.ancestors(call):
                if isinstance(ancestor, FunctionNode):
                    break
                if isinstance(ancestor, ast.For | ast.While):
                    found[module.span(ancestor)] = None
                    break
    for at in found:
        yield _head(program, at, "holds a backward pass; not followed any further")


def _steps(program: Program) -> Iterator[Seen]:
    for step in optimizer_steps(program):
        yield _seen(program, step.at, f"every {step.every} batches" if step.every else "")


def _evaluations(program: Program, training: Training) -> Iterator[Seen]:
    for loop in training.evaluations:
        note = "its figures add up over processes" if loop.share else loop.why_not
        yield _head(program, loop.at, note)


def _effects(program: Program) -> Iterator[Seen]:
    told = {
        "write": "writes a file",
        "folder": "makes a folder",
        "sink": "keeps a log open",
        "remove": "removes files",
        "shell": "runs a command",
        "prompt": "waits for a person",
        "download": "downloads",
    }
    for effect in program.effects:
        yield _seen(program, effect.at, told.get(effect.kind, effect.kind))


def _obstacles(program: Program, training: Training) -> Iterator[Seen]:
    for place in [*training.obstacles, *training.order_obstacles]:
        yield _head(program, place.at, place.note)


def _not_found(program: Program, training: Training, what: str) -> str:
    if not program.wraps or not program.trains:
        return ""
    return f"no loop over {what} that could be followed"
