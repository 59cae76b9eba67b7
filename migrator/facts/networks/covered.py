"""Which outputs of a forward pass bring no parameters along that its other outputs have not already.

In: a call of a model, its forward pass and the positions of the outputs that the step uses.  Out: True where each other output is
no more than a value that the used ones were computed from: `return loss, logits`, where `loss` is made of `logits`.  A backward
pass from the used outputs then reaches every parameter that any output depends on.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from migrator.facts.python.nodes import argument, has_unpacking, walk
from migrator.facts.python.syntax import Module

# What passes no gradient on.
_NO_GRADIENT = frozenset(
    [
        *("shape", "size", "device", "dtype", "detach", "data", "dim", "ndim", "requires_grad", "argmax", "argmin"),
        *("argsort", "item", "tolist", "numpy", "long", "int", "bool", "eq", "ne", "gt", "ge", "lt", "le", "sign"),
        *("round", "nonzero"),
    ]
)


def covers_others(call: ast.Call, module: Module, forward: ast.FunctionDef, used: set[int], count: int) -> bool:
    """True when the outputs at these positions reach the parameters of all `count` outputs of the call."""
    if has_unpacking(call) or forward.args.vararg is not None or forward.args.kwarg is not None:
        return False
    returns, goes_on = reached(call, forward)
    found = [_outputs(module, node) for node in returns]
    return (
        bool(found)
        and not goes_on
        and all(len(o) == count and _is_covered(module, n, o, used) for n, o in zip(returns, found, strict=True))
    )


def reached(call: ast.Call, forward: ast.FunctionDef) -> tuple[list[ast.Return], bool]:
    """The `return`s that a call of a model gets to, and whether it may get to the end of the forward pass."""
    return _reached(forward.body, {} if has_unpacking(call) else _given(call, forward))


def _given(call: ast.Call, forward: ast.FunctionDef) -> dict[str, bool]:
    """Of each parameter whether the call gives it a value; those of which that is not known are left out."""
    names = [a.arg for a in forward.args.args][1:]
    values = {name: argument(call, name, place) for place, name in enumerate(names)}
    tensors = {n: v for n, v in values.items() if isinstance(v, ast.Name | ast.Subscript | ast.Call)}
    omitted = {n for n, v in values.items() if v is None or (isinstance(v, ast.Constant) and v.value is None)}
    return dict.fromkeys(tensors, True) | dict.fromkeys(omitted, False)


def _reached(body: Sequence[ast.stmt], given: dict[str, bool]) -> tuple[list[ast.Return], bool]:
    """The `return`s that a call gets to, and whether it may go on behind the statements."""
    found: list[ast.Return] = []
    for node in body:
        if isinstance(node, ast.Return):
            return [*found, node], False
        if isinstance(node, ast.Raise):
            return found, False
        if isinstance(node, ast.If):
            holds = _holds(node.test, given)
            ways = [
                _reached(way, given)
                for way, taken in ((node.body, True), (node.orelse, False))
                if holds in (None, taken)
            ]
            found += [one for returns, _ in ways for one in returns]
            if not any(goes_on for _, goes_on in ways):
                return found, False
        else:
            found += [n for n in walk(node) if isinstance(n, ast.Return)]
    return found, True


def _holds(test: ast.expr, given: dict[str, bool]) -> bool | None:
    """What `x is None` and `x is not None` are."""
    if not isinstance(test, ast.Compare) or not isinstance(test.left, ast.Name) or len(test.ops) != 1:
        return None
    other, known = test.comparators[0], given.get(test.left.id)
    if known is None or not (isinstance(other, ast.Constant) and other.value is None):
        return None
    return known if isinstance(test.ops[0], ast.IsNot) else not known if isinstance(test.ops[0], ast.Is) else None


def _outputs(module: Module, node: ast.Return) -> list[ast.expr]:
    """What is given back, also by way of a name; empty where it is no tuple in sight."""
    value = node.value
    if isinstance(value, ast.Name):
        made = [s for s in _before(module, node) if value.id in _stored(s)]
        value = made[-1].value if made and isinstance(made[-1], ast.Assign) else None
    return list(value.elts) if isinstance(value, ast.Tuple) else []


def _is_covered(module: Module, end: ast.Return, outputs: list[ast.expr], used: set[int]) -> bool:
    reads: list[tuple[str, int]] = []  # names that the used outputs are computed from, and where
    for place in used:
        reads += [(name, module.span(outputs[place]).start) for name in _names(outputs[place])]
    before = _before(module, end)
    for statement in reversed(before):
        needed = {name for name, _ in reads}
        if isinstance(statement, ast.Assign) and _stored(statement) & needed:
            reads += [(name, module.span(statement).start) for name in _names(statement.value)]
    stores = [(name, module.span(statement).start) for statement in before for name in _stored(statement)]
    for place, output in enumerate(outputs):
        names = _names(output)
        if place in used or not names:
            continue
        if any(isinstance(n, ast.Call) and not isinstance(n.func, ast.Attribute) for n in ast.walk(output)):
            return False
        if any(isinstance(n, ast.Name) and n.id == "self" for n in ast.walk(output)):
            return False
        for name in names:
            last = max((at for n, at in reads if n == name), default=-1)
            if last < 0 or any(n == name and at > last for n, at in stores):
                return False
    return True


def _before(module: Module, end: ast.stmt) -> list[ast.stmt]:
    """The statements that every way to this one goes through, in order."""
    found: list[ast.stmt] = []
    current: ast.AST = end
    while isinstance(current, ast.stmt) and not isinstance(current, ast.FunctionDef):
        block = module.block(current)
        found = [*block[: block.index(current)], *found]
        current = module.parents[current]
    return found


def _stored(statement: ast.stmt) -> set[str]:
    return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _names(node: ast.expr) -> set[str]:
    """Names whose gradients an expression passes on."""
    hidden: set[ast.AST] = set()
    for inner in ast.walk(node):
        if (isinstance(inner, ast.Attribute) and inner.attr in _NO_GRADIENT) or isinstance(inner, ast.Compare):
            hidden |= set(ast.walk(inner))
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n not in hidden} - {"self", "torch", "F", "nn"}
