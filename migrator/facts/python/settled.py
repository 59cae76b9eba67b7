"""Tests that come out one way unless the user gives another setting: `args.local_rank != -1`, with -1 as its default.

In: a test of a program.  Out: True, False, or None where it cannot be told.  A setting that a launcher's variables or the
number of devices decide is not settled; nor is one that several parsers or statements give different values.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

from migrator.facts.program import Program
from migrator.facts.python.mentions import all_known
from migrator.facts.python.nodes import argument, dotted, has_unpacking
from migrator.facts.python.scopes import Binding
from migrator.facts.python.syntax import Module

_UNKNOWN = object()
_DEPTH = 6
_COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.In: lambda a, b: a in b,
    ast.NotIn: lambda a, b: a not in b,
}


def settled(program: Program, module: Module, test: ast.expr) -> bool | None:
    """What a test is with the defaults of all settings."""
    return _truth(_value(program, module, test, _DEPTH))


def stays_off(program: Program, module: Module, node: ast.AST, depth: int = _DEPTH) -> bool:
    """True when a statement runs only if the user gives a setting another value: every way to it leads through such an `if`."""
    child = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.If | ast.IfExp) and child is not ancestor.test:
            then = ancestor.body if isinstance(ancestor.body, list) else [ancestor.body]
            if _truth(_value(program, module, ancestor.test, depth)) is (child not in then):
                return True
        if isinstance(ancestor, ast.FunctionDef):
            sites = program.resolver.call_sites(ancestor)
            return depth > 0 and bool(sites) and all(stays_off(program, m, c, depth - 1) for m, c in sites)
        child = ancestor
    return False


def _truth(value: object) -> bool | None:
    return None if value is _UNKNOWN else bool(value)


def _value(program: Program, module: Module, node: ast.AST, depth: int) -> object:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple | ast.List):
        items = [_value(program, module, element, depth) for element in node.elts]
        return _UNKNOWN if _UNKNOWN in items else items
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
        value = _value(program, module, node.operand, depth)
        if value is _UNKNOWN or (isinstance(node.op, ast.USub) and not isinstance(value, int | float)):
            return _UNKNOWN
        return not value if isinstance(node.op, ast.Not) else -value  # type: ignore[operator]
    if isinstance(node, ast.BoolOp):
        return _joined(node, [_value(program, module, part, depth) for part in node.values])
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARED:
        left, right = (_value(program, module, side, depth) for side in (node.left, node.comparators[0]))
        try:
            return _UNKNOWN if _UNKNOWN in (left, right) else _COMPARED[type(node.ops[0])](left, right)
        except TypeError:
            return _UNKNOWN  # of another type than it seems: the parser converts it
    if isinstance(node, ast.Name | ast.Attribute) and depth:
        return _agreed(list(_given(program, module, node, depth - 1)))
    return _UNKNOWN


def _joined(node: ast.BoolOp, values: list[object]) -> object:
    decisive = isinstance(node.op, ast.Or)
    if any(value is not _UNKNOWN and bool(value) is decisive for value in values):
        return decisive
    return _UNKNOWN if _UNKNOWN in values else not decisive


def _agreed(values: list[object]) -> object:
    """The one value that all of them are."""
    same = bool(values) and all(type(v) is type(values[0]) and v == values[0] for v in values)
    return values[0] if same else _UNKNOWN


def _given(program: Program, module: Module, node: ast.Name | ast.Attribute, depth: int) -> Iterator[object]:
    """Everything that a setting may be: a parser's default, and what statements give it that run with the defaults."""
    if isinstance(node, ast.Attribute):
        if dotted(node) is None or isinstance(node.value, ast.Attribute):
            yield _UNKNOWN
            return
        for call in _options(program, node.attr):
            yield _default(call)
        for owner, target, value, path in program.resolver.attribute_writes.get(node.attr, ()):
            if not depth or not stays_off(program, owner, target, depth - 1):
                yield _UNKNOWN if value is None or path else _value(program, owner, value, depth)
        return
    found = module.lookup(node.id, module.scope_of.get(node, module.scope))
    for binding in found[1] if found else ():
        if binding.kind == "param" and found is not None and isinstance(found[0].node, ast.FunctionDef):
            yield from _handed(program, module, found[0].node, binding, depth)
        elif binding.kind != "assign" or binding.value is None or binding.path:
            yield _UNKNOWN
        else:
            yield _value(program, module, binding.value, depth)


def _handed(
    program: Program, module: Module, function: ast.FunctionDef, binding: Binding, depth: int
) -> Iterator[object]:
    """What the callers of a function give a parameter, or its default; unknown where not all of them are in sight."""
    sites = program.resolver.call_sites(function)
    is_method = isinstance(module.parents.get(function), ast.ClassDef)
    if not sites or not depth or is_method or not all_known(program, function, len(sites)):
        yield _UNKNOWN
        return
    position = binding.path[0] if binding.path else None
    for owner, call in sites:
        given = argument(call, binding.target, position)
        if has_unpacking(call) or (given is None and binding.value is None):
            yield _UNKNOWN
        elif given is not None:
            yield _value(program, owner, given, depth)
        elif binding.value is not None:
            yield _value(program, module, binding.value, depth)


def _options(program: Program, name: str) -> list[ast.Call]:
    return _options_by_name(program).get(name, [])


@lru_cache(maxsize=2)
def _options_by_name(program: Program) -> dict[str, list[ast.Call]]:
    """The `add_argument` calls behind each setting."""
    found: dict[str, list[ast.Call]] = {}
    for module, call in program.calls():
        if (
            not isinstance(call.func, ast.Attribute)
            or call.func.attr != "add_argument"
            or program.is_unreached(module, call)
        ):
            continue
        flags = [str(a.value).lstrip("-").replace("-", "_") for a in call.args if isinstance(a, ast.Constant)]
        dest = argument(call, "dest", None)
        names = flags[:2] if dest is None else [str(dest.value)] if isinstance(dest, ast.Constant) else flags[:1]
        for name in dict.fromkeys(names):
            found.setdefault(name, []).append(call)
    return found


def _default(call: ast.Call) -> object:
    default, action = argument(call, "default", None), argument(call, "action", None)
    if default is not None:
        negative = isinstance(default, ast.UnaryOp) and isinstance(default.op, ast.USub)
        constant = default.operand if isinstance(default, ast.UnaryOp) and negative else default
        if not isinstance(constant, ast.Constant):
            return _UNKNOWN
        if isinstance(constant.value, str) and argument(call, "type", None) is not None:
            return _UNKNOWN  # the type converts it
        return -constant.value if negative and isinstance(constant.value, int | float) else constant.value
    text = action.value if isinstance(action, ast.Constant) else None
    required = argument(call, "required", None)
    positional = (
        bool(call.args) and isinstance(call.args[0], ast.Constant) and not str(call.args[0].value).startswith("-")
    )
    if required is not None or positional:
        return _UNKNOWN
    return {"store_true": False, "store_false": True, "count": None}.get(str(text))
