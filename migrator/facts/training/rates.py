"""What scaling the learning rate needs to know: names in the scope that counts epochs, and what else depends on the batch.

In: a `Program` and its `Training`.  Out: an `EpochView`, or the reason why there is none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted
from migrator.facts.python.scopes import Scope
from migrator.facts.python.syntax import Module, Span
from migrator.facts.python.values import Value
from migrator.facts.steps.steps import OptimizerStep
from migrator.facts.training.training import Loader, Training


@dataclass(frozen=True, slots=True)
class EpochView:
    """The epoch loop (`at`), and how its scope spells the number of epochs, the loader and the optimizers."""

    at: Span
    epochs: str
    loader: str
    optimizers: tuple[str, ...]
    kinds: tuple[str, ...]


def view_epochs(program: Program, training: Training, steps: list[OptimizerStep]) -> EpochView | str:
    """How to spell the number of steps before the epochs begin."""
    if training.epoch_loop is None:
        return "the loop over epochs was not found"
    if len(steps) != 1:
        return "more than one place takes a step" if steps else "no optimizer's step was found"
    if steps[0].odd and "closure" not in steps[0].odd:
        return f"whether a step is taken was not understood: {steps[0].odd}"
    module = program.module_at(training.epoch_loop)
    loop = next((n for n in module.nodes if isinstance(n, ast.For) and module.span(n) == training.epoch_loop), None)
    epochs = _count(module, loop.iter) if loop is not None else None
    if loop is None or epochs is None:
        return "the number of epochs was not understood"
    names = _optimizer_names(program, module, loop, steps[0])
    if not names:
        return f"{steps[0].optimizer} cannot be reached where epochs are counted"
    kinds = {v.name for _, v in names}
    return EpochView(
        training.epoch_loop,
        epochs,
        training.loader_in_epoch_scope,
        tuple(dict.fromkeys(name for name, _ in names)),
        tuple(sorted(kinds)),
    )


def _count(module: Module, node: ast.expr) -> str | None:
    """The number of epochs of `range(…)`; a start that is not a number is taken for that of a resumed training."""
    if not isinstance(node, ast.Call) or not node.args or len(node.args) > 2 or node.keywords:
        return None
    stop = node.args[-1]
    text = module.segment(stop)
    first = node.args[0].value if len(node.args) == 2 and isinstance(node.args[0], ast.Constant) else 0
    if first == 1 and isinstance(stop, ast.BinOp) and isinstance(stop.op, ast.Add):
        if isinstance(stop.right, ast.Constant) and stop.right.value == 1:
            return _operand(module, stop.left)
    return _operand(module, stop) if first == 0 else f"len(range({first!r}, {text}))"


def _operand(module: Module, node: ast.expr) -> str:
    text = module.segment(node)
    return text if isinstance(node, ast.Name | ast.Attribute | ast.Constant | ast.Call | ast.Subscript) else f"({text})"


def _optimizer_names(program: Program, module: Module, loop: ast.For, step: OptimizerStep) -> list[tuple[str, Value]]:
    """Expressions for the stepped optimizer that hold before the epoch loop."""
    owner = program.module_at(step.at)
    node = next(n for n in owner.nodes if isinstance(n, ast.Call) and owner.span(n) == step.at)
    assert isinstance(node.func, ast.Attribute)
    wanted = {v.node: v for v in program.resolver.values(owner, node.func.value) if v.kind in ("call", "instance")}
    scope = module.scope_of.get(loop, module.scope)
    function = next((a for a in module.ancestors(loop) if isinstance(a, FunctionNode)), module.tree)
    found: list[tuple[str, Value]] = []
    for one in ast.walk(function):
        if not isinstance(one, ast.Name | ast.Attribute) or module.scope_of.get(one, module.scope) is not scope:
            continue
        name = dotted(one)
        if name is None or any(name == known for known, _ in found):
            continue
        values = [v for v in program.resolver.values(module, one) if v.kind in ("call", "instance")]
        if values and all(v.node in wanted for v in values) and _bound_before(module, scope, name, loop):
            found.append((name, values[0]))
            break
    if not found and scope is module.scope and wanted:
        found = [(step.optimizer, next(iter(wanted.values())))] if step.optimizer in module.scope.bindings else []
    return found


def _bound_before(module: Module, scope: Scope, name: str, loop: ast.For) -> bool:
    """True for a parameter, a global, and a name that is assigned above the loop."""
    found = module.lookup(name.split(".")[0], scope)
    if found is None or found[0] is not scope:
        return found is not None
    at = module.span(loop).start
    return any(b.kind == "param" or module.span(b.node).start < at for b in found[1] if hasattr(b.node, "lineno"))


def grows_already(program: Program, loader: Loader) -> bool:
    """True when the loader's batch is made with the number of GPUs."""
    if loader.batch is None:
        return False
    if any(loader.batch.contains(count.at) for count in program.device_counts):
        return True
    counted = {count.statement for count in program.device_counts}
    name = loader.batch_text
    for module in program.modules:
        for node in module.nodes:
            target = node.target if isinstance(node, ast.AugAssign) else None
            if isinstance(node, ast.Assign) and len(node.targets) == 1:
                target = node.targets[0]  # type: ignore[assignment]
            if target is not None and dotted(target) == name:
                if isinstance(node, ast.AugAssign) or module.span(node) in counted:
                    return True
    return False


def arithmetic_with_batch(program: Program, training: Training) -> Iterator[Span]:
    """`len(dataset) // batch_size` and its like: a number of steps that the program works out by itself."""
    names = {
        loader.batch_text for loader in training.loaders if loader.batch_text.isidentifier() or "." in loader.batch_text
    }
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv | ast.Div):
                if dotted(node.right) in names and any(
                    isinstance(n, ast.Call) and dotted(n.func) == "len" for n in ast.walk(node.left)
                ):
                    yield module.span(node)
