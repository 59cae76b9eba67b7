"""The steps of a training program: from the model's call to the optimizer's, whatever lies around them.

In: a `Program`.  Out: a `Step` for each backward pass whose forward pass stands in the same block, and places for those that
could not be read.  Nothing is said about loaders or epochs; that is `facts.training`.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted, names_in
from migrator.facts.python.syntax import Module, Span

_NO_FORWARD = frozenset({"train", "eval", "state_dict", "zero_grad", "parameters", "cuda", "to", "load_state_dict"})
_CLIPS = ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")


@dataclass(frozen=True, slots=True)
class OptimizerStep:
    """`optimizer.step()`: `every` is the number of backward passes per step as text, empty for one."""

    at: Span
    statement: Span
    optimizer: str
    every: str
    odd: str  # why it cannot be changed, or empty


@dataclass(frozen=True, slots=True)
class Step:
    """A backward pass: `forward` are the consecutive statements from the model's call to the loss; `clips` the statements
    that clip gradients, `home` is the statement of the module's top level in which it all stands."""

    backward: Span
    loss: Span
    forward: tuple[Span, ...]
    outputs: frozenset[str]
    clips: tuple[Span, ...]
    home: Span
    in_function: bool
    apex: Span | None  # the `with amp.scale_loss(...)` statement that it is


def read_steps(program: Program) -> tuple[list[Step], list[Place]]:
    """The steps, and the backward passes that could not be read (the note says why)."""
    steps, unread = [], []
    for module, call in program.calls():
        if isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not _is_definition(module, call):
            found = _step(program, module, call)
            if isinstance(found, Step):
                steps.append(found)
            else:
                unread.append(
                    Place(module.span(call), module.span(module.statement(call)), module.segment(call), found)
                )
    return steps, unread


def _is_definition(module: Module, call: ast.Call) -> bool:
    """A backward inside a `backward` method: an autograd function of the program's own."""
    function = module.enclosing_function(call)
    return function is not None and function.name == "backward"


def _step(program: Program, module: Module, call: ast.Call) -> Step | str:
    assert isinstance(call.func, ast.Attribute)
    if call.args and not (isinstance(call.args[0], ast.Constant) and call.args[0].value is None):
        return "the gradient of the loss is given by hand"
    statement: ast.stmt = module.statement(call)
    if not isinstance(statement, ast.Expr) or statement.value is not call:
        return "the backward pass is part of another expression"
    loss = call.func.value
    apex = module.parents.get(statement)
    if isinstance(apex, ast.With) and (scaled := _scaled_by_apex(program, module, apex, loss)) is not None:
        statement, loss = apex, scaled
    if any(_forwards(program, module, n) for n in ast.walk(loss)):
        return "the loss has no name of its own"
    region = _region(program, module, statement, names_in(loss))
    if not region:
        return "the model's call was not found beside it"
    for one in region:
        for node in ast.walk(one):
            if _is_call(node, "backward") or _is_call(node, "step"):
                return "another step stands between the model's call and the loss"
    top: ast.AST = statement
    for ancestor in module.ancestors(statement):
        if ancestor is not module.tree:
            top = ancestor
    function = module.enclosing_function(statement)
    around = function if function is not None else module.tree
    clips = [
        module.span(module.statement(n))
        for n in ast.walk(around)
        if isinstance(n, ast.Call) and (dotted(n.func) or "").endswith(_CLIPS)
    ]
    return Step(
        backward=module.span(call),
        loss=module.span(loss),
        forward=tuple(module.span(one) for one in region),
        outputs=frozenset(name for one in region for name in _stored(one)),
        clips=tuple(clips),
        home=module.span(top),
        in_function=function is not None,
        apex=module.span(statement) if isinstance(statement, ast.With) else None,
    )


def _region(program: Program, module: Module, statement: ast.stmt, needed: set[str]) -> list[ast.stmt]:
    """Consecutive statements from the model's call to the last one that makes the loss, before a statement of their block
    that is, or holds in an `if`, the backward pass."""
    while True:
        block = module.block(statement)
        chosen: list[int] = []
        first = None
        for place in range(block.index(statement) - 1, -1, -1):
            one = block[place]
            if not _stored(one) & needed:
                continue
            chosen.append(place)
            needed = needed | names_in(one)
            if any(_forwards(program, module, n) for n in ast.walk(one)):
                first = place
        if first is not None:
            return block[first : max(chosen) + 1]
        parent = module.parents.get(statement)
        if chosen or not isinstance(parent, ast.If):
            return []
        statement = parent


def _scaled_by_apex(program: Program, module: Module, node: ast.With, scaled: ast.expr) -> ast.expr | None:
    """The loss of `with amp.scale_loss(loss, optimizer) as scaled:`, for a body that is the backward pass alone."""
    made = node.items[0].context_expr
    if len(node.items) != 1 or len(node.body) != 1 or not isinstance(made, ast.Call) or not made.args:
        return None
    target = node.items[0].optional_vars
    named = isinstance(target, ast.Name) and isinstance(scaled, ast.Name) and target.id == scaled.id
    return made.args[0] if named and program.external(module, made) == "apex.amp.scale_loss" else None


def _is_call(node: ast.AST, method: str) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method


def _stored(statement: ast.stmt) -> set[str]:
    """Names that the statement binds."""
    stored = {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    for node in ast.walk(statement):
        if isinstance(node, ast.Subscript | ast.Attribute) and isinstance(node.ctx, ast.Store):
            stored |= names_in(node.value)
    return stored


def _forwards(program: Program, module: Module, node: ast.AST, depth: int = 0) -> bool:
    """True for a call of the wrapped model, also inside a function that is called."""
    if not isinstance(node, ast.Call):
        return False
    func = node.func
    if not (isinstance(func, ast.Attribute) and func.attr in _NO_FORWARD) and program.is_wrapped(module, func):
        return True
    callee = program.resolver.callee(module, node) if depth < 3 else None
    if callee is None or isinstance(callee[1], ast.ClassDef):
        return False
    return any(_forwards(program, callee[0], n, depth + 1) for n in ast.walk(callee[1]))


def optimizer_steps(program: Program) -> Iterator[OptimizerStep]:
    """All calls that step an optimizer of torch, or of the program."""
    for module, call in program.calls():
        if not _is_call(call, "step") or not _is_optimizer(program, module, call.func.value):  # type: ignore[attr-defined]
            continue
        statement = module.statement(call)
        plain = isinstance(statement, ast.Expr) and statement.value is call
        odd = "" if plain and not call.args and not call.keywords else "the step takes a closure or gives a value"
        every, reason = _every(module, call)
        yield OptimizerStep(
            module.span(call),
            module.span(statement),
            module.segment(call.func.value),  # type: ignore[attr-defined]
            every,
            odd or reason,
        )


def _is_optimizer(program: Program, module: Module, node: ast.expr) -> bool:
    values = [v for v in program.resolver.values(module, node) if v.kind != "constant"]
    for value in values:
        if value.kind == "call" and value.name.startswith("torch.optim.") and "lr_scheduler" not in value.name:
            return True
        if value.kind == "instance" and value.module is not None and isinstance(value.node, ast.Call):
            found = program.resolver.definition(value.module.qualified(value.node.func), value.module)
            if found is not None and isinstance(found[1], ast.ClassDef):
                if any(base.endswith("Optimizer") for base in program.resolver.external_bases(found[0], found[1])):
                    return True
    known = any(value.kind in ("call", "instance") for value in values)
    return not known and bool(re.search(r"optim|(^|[._])opt(_|$)", dotted(node) or "", re.IGNORECASE))


def _every(module: Module, call: ast.Call) -> tuple[str, str]:
    """How many backward passes one step takes, and why that could not be told."""
    child: ast.AST = call
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, FunctionNode | ast.For | ast.While):
            return "", ""
        if isinstance(ancestor, ast.If) and child in ancestor.body:
            modulo = [n for n in ast.walk(ancestor.test) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod)]
            if len(modulo) != 1:
                return "", f"it depends on `{' '.join(module.segment(ancestor.test).split())}`"
            return module.segment(modulo[0].right), ""
        child = ancestor
    return "", ""


def numpy_after(program: Program, step: Step) -> Iterator[Span]:
    """`outputs.cpu().numpy()` and its like after the forward pass, for what may have half the bits there."""
    module = program.module_at(step.loss)
    end = step.forward[0].start
    for node in module.nodes:
        if not _is_call(node, "numpy") or module.span(node).start < end:
            continue
        loop = next((a for a in module.ancestors(node) if isinstance(a, ast.For | ast.While)), None)
        if loop is None or not module.span(loop).contains(step.backward):
            continue
        assert isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        whole = module.segment(node)
        if names_in(node.func.value) & step.outputs and not re.search(r"\.(float|double|item|argmax|max)\(", whole):
            yield module.span(node)
