"""Statements that freeze all of a wrapped network for a part of a step, or release all of it again.

In: a statement.  Out: which network, and whether it is frozen from there on; a freezing of which either is unknown; None for any
other statement.  `for p in net.parameters(): p.requires_grad = False`, `net.requires_grad_(False)`, and a function of the
program's own that does nothing else with the network and the flag that it is given.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted, has_unpacking
from migrator.facts.python.syntax import Module
from migrator.facts.wraps.replaced_parts import releases


@dataclass(frozen=True, slots=True)
class Freezing:
    """`network` is told by the call that wraps it; `writes` is what sets the flag, in `function` where that is one."""

    network: ast.AST | None
    frozen: bool | None
    writes: ast.AST
    function: ast.FunctionDef | None = None


def freezing(program: Program, module: Module, statement: ast.stmt) -> Freezing | None:
    """What a statement freezes or releases."""
    direct = _written(statement)
    if direct is not None:
        network, flag, node = direct
        if isinstance(statement, ast.Expr) and not wraps_at(program, module, network):
            return None  # of a tensor, or of a part
        return Freezing(_wrapped(program, module, network), _frozen(flag), node)
    call = statement.value if isinstance(statement, ast.Expr) else None
    if not isinstance(call, ast.Call) or has_unpacking(call):
        return None
    callee = program.resolver.callee(module, call)
    if callee is None or not isinstance(callee[1], ast.FunctionDef):
        return None
    return _by_function(program, module, call, callee[0], callee[1])


def _by_function(
    program: Program, module: Module, call: ast.Call, owner: Module, function: ast.FunctionDef
) -> Freezing | None:
    """`set_requires_grad(net, False)`."""
    body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
    written = _written(body[0]) if len(body) == 1 else None
    if written is None or function.decorator_list:
        return None
    inner, flag, node = written
    names = [a.arg for a in function.args.args][1 if owner.scopes[function].self_name is not None else 0 :]
    defaults = dict(zip(names[::-1], function.args.defaults[::-1], strict=False))

    def given(value: ast.expr) -> tuple[Module, ast.expr]:
        if not isinstance(value, ast.Name) or value.id not in names:
            return owner, value
        handed = argument(call, value.id, names.index(value.id))
        return (module, handed) if handed is not None else (owner, defaults.get(value.id, value))

    return Freezing(_wrapped(program, *given(inner)), _frozen(given(flag)[1]), node, function)


def _written(statement: ast.stmt) -> tuple[ast.expr, ast.expr, ast.AST] | None:
    """(the network, the flag, what writes it) of a statement that sets `requires_grad` of all parameters of one network."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        func = statement.value.func
        if isinstance(func, ast.Attribute) and func.attr == "requires_grad_" and dotted(func.value) is not None:
            flag = argument(statement.value, "requires_grad", 0) or ast.Constant(True)
            return func.value, flag, statement.value
    if not isinstance(statement, ast.For) or statement.orelse or len(statement.body) != 1:
        return None
    source, target, inner = statement.iter, statement.target, statement.body[0]
    if not isinstance(source, ast.Call) or not isinstance(source.func, ast.Attribute) or source.args or source.keywords:
        return None
    if source.func.attr != "parameters" or not isinstance(target, ast.Name):
        return None
    if (
        isinstance(inner, ast.Assign)
        and len(inner.targets) == 1
        and dotted(inner.targets[0]) == f"{target.id}.requires_grad"
    ):
        return source.func.value, inner.value, inner
    if isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call):
        if dotted(inner.value.func) == f"{target.id}.requires_grad_":
            return source.func.value, argument(inner.value, "requires_grad", 0) or ast.Constant(True), inner.value
    return None


def _wrapped(program: Program, module: Module, node: ast.expr) -> ast.AST | None:
    """The one wrapped network that an expression stands for: under its own name, or as `net.module`."""
    if isinstance(node, ast.Attribute) and node.attr == "module" and program.is_wrapped(module, node.value):
        node = node.value
    wraps = wraps_at(program, module, node)
    return wraps.pop() if len(wraps) == 1 else None


def wraps_at(program: Program, module: Module, node: ast.AST) -> set[ast.AST]:
    """The calls that wrap the networks that an expression may stand for."""
    return {v.node for v in program.resolver.values(module, node) if v.node in program.wrap_calls.nodes}


def _frozen(flag: ast.expr) -> bool | None:
    if isinstance(flag, ast.Constant) and isinstance(flag.value, bool):
        return not flag.value
    return None


def only_toggled(program: Program, toggles: dict[ast.stmt, Freezing]) -> frozenset[ast.AST] | None:
    """What writes the flags, where nothing in the program writes any but these statements; else None.

    A parameter that is frozen when its network is wrapped has no gradient exchanged, whoever releases it later.
    """
    releasing = bool(toggles)  # without, only what freezes matters
    known = {toggle.writes for toggle in toggles.values()}
    for toggle in toggles.values():
        sites = program.resolver.call_sites(toggle.function) if toggle.function is not None else []
        if any(module.statement(call) not in toggles for module, call in sites):
            return None
    for module in program.modules:
        for node in module.nodes:
            if (
                node not in known
                and _writes_flag(program, module, node, releasing)
                and not (program.is_unreached(module, node) or is_never_called(program, module, node))
            ):
                return None
    return frozenset(known)


def is_never_called(program: Program, module: Module, node: ast.AST) -> bool:
    """True inside a function of a module that nothing names: `self.config.freeze()` is another one of that name."""
    function = module.enclosing_function(node)
    if function is None or module.parents.get(function) is not module.tree or program.resolver.call_sites(function):
        return False
    return not any(_may_mean(n, function.name) for m in program.modules for n in m.nodes)


def _may_mean(node: ast.AST, name: str) -> bool:
    """True for what may lead to a top-level function of this name; an attribute of `self` is no module's."""
    if isinstance(node, ast.Attribute) and node.attr == name:
        root: ast.AST = node
        while isinstance(root, ast.Attribute):
            root = root.value
        return not (isinstance(root, ast.Name) and root.id == "self")
    if isinstance(node, ast.alias):
        return node.name.rpartition(".")[2] == name
    return isinstance(node, ast.Name | ast.Constant) and name == getattr(node, "id", getattr(node, "value", None))


def _writes_flag(program: Program, module: Module, node: ast.AST, releasing: bool) -> bool:
    if isinstance(node, ast.Assign | ast.AugAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        written = any(isinstance(t, ast.Attribute) and t.attr == "requires_grad" for t in targets)
        return written and (releasing or _frozen(node.value) is not False)
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr == "requires_grad_":
        return releasing or _frozen(argument(node, "requires_grad", 0) or ast.Constant(True)) is not False
    made = program.external(module, node).rpartition(".")[2] == "Parameter"
    return releases(node) or (made and argument(node, "requires_grad", 1) is not None)
