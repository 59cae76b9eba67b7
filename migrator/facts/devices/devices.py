"""Places that name a GPU or count the GPUs, as only one process for all of them may."""

from __future__ import annotations

import ast
import re

from migrator.facts.code import Code
from migrator.facts.effects.announcing import is_announcement
from migrator.facts.model import DeviceLiteral, GuardFact, Place, Wrap
from migrator.facts.processes.converted import is_settled
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span


def device_literals(code: Code, joined: bool) -> list[DeviceLiteral]:
    """Places that name a GPU by its index, or choose which GPUs are visible."""
    found = []
    for module in code.modules:
        for node in module.nodes:
            if code.is_other_main(module, node) or (joined and is_settled(module, node)):
                continue
            literal = _device_literal(code, module, node)
            if literal is not None:
                found.append(literal)
    return found


def _device_literal(code: Code, module: Module, node: ast.AST) -> DeviceLiteral | None:
    def fact(kind: str) -> DeviceLiteral:
        return DeviceLiteral(kind, module.span(node), module.span(module.statement(node)), module.segment(node))

    if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"cuda:\d+", node.value):
        return fact("string")
    if isinstance(node, ast.Call):
        name = code.external(module, node)
        if name == "torch.cuda.set_device":
            return fact("set_device")
        if (
            isinstance(node.func, ast.Attribute)
            and node.func.attr == "cuda"
            and (node.args or any(k.arg == "device" for k in node.keywords))
        ):
            first = node.args[0] if node.args else None
            own = [v.name for v in code.resolver.values(module, first)] if first is not None else []
            if own == ["torch.cuda.current_device"] or _is_where(first):
                return None
            if not (isinstance(first, ast.Constant) and (first.value is None or isinstance(first.value, bool))):
                return fact("cuda_call")
        if name == "torch.device" and len(node.args) == 2:
            return fact("device_call")
    if isinstance(node, ast.Assign) and any(_is_visible_devices(module, t) for t in node.targets):
        return fact("visible")
    return None


def _is_where(node: ast.AST | None) -> bool:
    """`x.get_device()`: where a tensor is, which is the process's own GPU."""
    return isinstance(node, ast.Call) and (dotted(node.func) or "").endswith(".get_device") and not node.args


def device_counts(code: Code, wraps: list[Wrap], inlined: list[GuardFact]) -> list[Place]:
    """`torch.cuda.device_count()` where its value matters to the training."""
    gone = [wrap.at for wrap in wraps]
    gone += [Span(g.at.path, g.at.start, g.lines[0].start, g.at.line) for g in inlined if not g.orelse]
    found = []
    for module, call in code.calls():
        if code.external(module, call) != "torch.cuda.device_count":
            continue
        statement = module.statement(call)
        announced = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
        if announced and is_announcement(statement.value):  # type: ignore[attr-defined]
            continue
        place = code.place(module, call)
        if any(span.contains(place.at) for span in gone) or _asks_for_any(module, call) or is_settled(module, call):
            continue
        last = _last_device(module, call)
        if last is not None:
            found.append(code.place(module, last, f"{module.segment(call.func).rpartition('.')[0]}.current_device()"))
        elif not _is_of_this_machine(module, call):
            found.append(place)
    return found


def _is_visible_devices(module: Module, target: ast.expr) -> bool:
    return (
        isinstance(target, ast.Subscript)
        and module.qualified(target.value) == "os.environ"
        and isinstance(target.slice, ast.Constant)
        and target.slice.value == "CUDA_VISIBLE_DEVICES"
    )


def _asks_for_any(module: Module, call: ast.Call) -> bool:
    """True for `device_count() >= 1`, `> 0` and the like: a question for CUDA, not for the number of devices."""
    parent = module.parents.get(call)
    if isinstance(parent, ast.Compare) and parent.left is call and len(parent.ops) == 1:
        bound = parent.comparators[0]
        if not isinstance(bound, ast.Constant):
            return False
        if bound.value == 0:
            return isinstance(parent.ops[0], ast.Gt | ast.Eq | ast.NotEq | ast.LtE)
        return bound.value == 1 and isinstance(parent.ops[0], ast.GtE | ast.Lt)
    return isinstance(parent, ast.BoolOp | ast.UnaryOp) or (
        isinstance(parent, ast.If | ast.IfExp | ast.While) and parent.test is call
    )


def _last_device(module: Module, call: ast.Call) -> ast.BinOp | None:
    """`device_count() - 1` and `int(device_count()) - 1`: the index of a GPU."""
    node: ast.AST = call
    parent = module.parents.get(node)
    if isinstance(parent, ast.Call) and dotted(parent.func) == "int":
        node, parent = parent, module.parents.get(parent)
    is_one = isinstance(parent, ast.BinOp) and isinstance(parent.right, ast.Constant) and parent.right.value == 1
    return parent if isinstance(parent, ast.BinOp) and is_one and isinstance(parent.op, ast.Sub) else None


def _is_of_this_machine(module: Module, call: ast.Call) -> bool:
    """True for `rank % device_count()`, and for a loop that asks this machine's devices or only tells about each."""
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, ast.BinOp) and isinstance(ancestor.op, ast.Mod):
            return True
        if isinstance(ancestor, ast.comprehension) and _asks_devices(module, ancestor.target, module.parents[ancestor]):
            return True
        if isinstance(ancestor, ast.For) and call in set(ast.walk(ancestor.iter)):
            if any(_asks_devices(module, ancestor.target, statement) for statement in ancestor.body):
                return True
            calls = [s.value for s in ancestor.body if isinstance(s, ast.Expr) and isinstance(s.value, ast.Call)]
            return len(calls) == len(ancestor.body) and all(is_announcement(c) for c in calls)
        if isinstance(ancestor, ast.stmt):
            return False
    return False


def _asks_devices(module: Module, target: ast.expr, inside: ast.AST) -> bool:
    """`torch.cuda.get_device_name(i)`: the number is that of a device of this machine."""
    return any(
        isinstance(n, ast.Call)
        and (module.qualified(n.func) or "").startswith("torch.cuda.")
        and any(isinstance(a, ast.Name) and isinstance(target, ast.Name) and a.id == target.id for a in n.args)
        for n in ast.walk(inside)
    )
