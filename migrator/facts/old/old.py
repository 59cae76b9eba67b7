"""What a program of torch's early years spells as today's torch no longer reads it.

In: a `Program`.  Out: places, each only where the meaning is certain: a number is one because it is a loss, an iterator is one
because `iter` made it.  Nothing is decided by a name alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, argument, dotted
from migrator.facts.python.syntax import Module, Span
from migrator.facts.steps import losses

_Node = TypeVar("_Node", bound=ast.AST)
_TO_NUMBER = frozenset({"data", "cpu", "detach", "numpy"})
_REDUCTIONS = frozenset({"sum", "mean", "norm", "max", "min"})


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A loop whose batches are volatile, and that computes no gradient; None where there is no such loop."""

    loop: Span | None
    calls: tuple[Span, ...]
    guarded: bool


def live_nodes(program: Program, kind: type[_Node], text: str) -> Iterator[tuple[Module, _Node]]:
    """Nodes of one kind of code that the program can run, in the modules that hold a text."""
    for module in program.modules:
        if text not in module.text:
            continue
        for node in module.nodes:
            if isinstance(node, kind) and not program.is_other_main(module, node):
                yield module, node


def is_variable(program: Program, module: Module, call: ast.Call) -> bool:
    return program.external(module, call) in ("torch.autograd.Variable", "torch.autograd.variable.Variable")


def volatile_calls(program: Program) -> list[Evaluation]:
    """`Variable(…, volatile=…)` by the loop around them, where that loop is certain to compute no gradient."""
    groups: dict[ast.For | None, list[tuple[Module, ast.Call]]] = {}
    for module, call in program.calls():
        given = argument(call, "volatile", None)
        if given is None or not is_variable(program, module, call):
            continue
        loop = _outer_loop(module, call) if isinstance(given, ast.Constant) and given.value is True else None
        known = loop is not None and not _may_train(program, module, loop, 0)
        groups.setdefault(loop if known else None, []).append((module, call))
    found = []
    for loop, rows in groups.items():
        module = rows[0][0]
        spans = tuple(owner.span(call) for owner, call in rows)
        guarded = loop is not None and _without_gradients(module, loop)
        found.append(Evaluation(module.span(loop) if loop is not None else None, spans, guarded))
    return found


def _outer_loop(module: Module, node: ast.AST) -> ast.For | None:
    loop = None
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, FunctionNode | ast.ClassDef):
            break
        if isinstance(ancestor, ast.For):
            if loop is not None and any(_names_call(n, ("backward", "step")) for n in ast.walk(ancestor)):
                break
            loop = ancestor
    return loop


def _names_call(node: ast.AST, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names


def _may_train(program: Program, module: Module, node: ast.AST, depth: int) -> bool:
    for inner in ast.walk(node):
        if _names_call(inner, ("backward", "step", "grad", "train")):
            return True
        if isinstance(inner, ast.Yield | ast.YieldFrom):
            return True
        if isinstance(inner, ast.Call) and depth < 4:
            callee = program.resolver.callee(module, inner)
            if callee is not None and isinstance(callee[1], ast.FunctionDef):
                if _may_train(program, callee[0], callee[1], depth + 1):
                    return True
    return False


def _without_gradients(module: Module, node: ast.AST) -> bool:
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.With):
            if any("no_grad" in module.segment(item.context_expr) for item in ancestor.items):
                return True
        if isinstance(ancestor, ast.FunctionDef):
            return any("no_grad" in module.segment(d) for d in ancestor.decorator_list)
    return False


def numbers(program: Program) -> Iterator[tuple[Span, Span]]:
    """`loss.data[0]` and its like, for what is a single number: the place, and the tensor."""
    for module, node in live_nodes(program, ast.Subscript, "[0]"):
        if not isinstance(node.ctx, ast.Load):
            continue
        if not (isinstance(node.slice, ast.Constant) and node.slice.value == 0 and node.slice.value is not False):
            continue
        base, steps = _behind(node.value)
        if ("data" in steps or "numpy" in steps) and _is_number(program, module, base, 0):
            yield module.span(node), module.span(base)


def _behind(node: ast.expr) -> tuple[ast.expr, set[str]]:
    """The tensor behind `.data`, `.cpu()` and `.numpy()`, and which of them were there."""
    steps: set[str] = set()
    while True:
        call = isinstance(node, ast.Call) and not node.args and not node.keywords
        inner = node.func if isinstance(node, ast.Call) and call else node
        if not isinstance(inner, ast.Attribute) or inner.attr not in _TO_NUMBER:
            return node, steps
        steps.add(inner.attr)
        node = inner.value


def _is_number(program: Program, module: Module, node: ast.expr, depth: int) -> bool:
    """True for a loss, a whole sum or mean, arithmetic with them, and what `backward()` is called on."""
    if depth > 5:
        return False
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr in _REDUCTIONS and not node.args:
            return not any(k.arg in ("dim", "axis") for k in node.keywords)
        verdict = losses.judge(program, module, node)
        return verdict is not None and "another reduction" not in verdict.reason and "reduce" not in verdict.reason
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return any(_is_number(program, module, side, depth + 1) for side in sides) and all(
            isinstance(side, ast.Constant | ast.Attribute) or _is_number(program, module, side, depth + 1)
            for side in sides
        )
    name = dotted(node)
    if name is None:
        return False
    function = module.enclosing_function(node)
    inside = list(ast.walk(function)) if function is not None else module.nodes
    if any(_names_call(n, ("backward",)) and not n.args and dotted(n.func.value) == name for n in inside):  # type: ignore[attr-defined]
        return True
    values = [
        n.value
        for n in inside
        if isinstance(n, ast.Assign) and len(n.targets) == 1 and dotted(n.targets[0]) == name and n.value is not node
    ]
    return bool(values) and all(_is_number(program, module, value, depth + 1) for value in values)


def iterator_steps(program: Program) -> Iterator[tuple[Span, Span]]:
    """`it.next()` for what `iter` made: the call, and the iterator."""
    for module, call in program.calls():
        if not _names_call(call, ("next",)) or call.args or call.keywords or not isinstance(call.func, ast.Attribute):
            continue
        values = [v for v in program.resolver.values(module, call.func.value) if v.kind != "constant"]
        if values and all(v.kind == "call" and v.name == "iter" for v in values) and _is_free(module, "next"):
            yield module.span(call), module.span(call.func.value)


def _is_free(module: Module, name: str) -> bool:
    return not any(name in scope.bindings for scope in module.scopes.values() if not scope.is_class)
