"""The conditions around a wrap.

In: a call that wraps.  Out: a `GuardFact` for each `if` around it, innermost first: whether it asks for several devices, and whether
its branches do nothing but place the model, so that the one with the wrap can stand alone.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator

from migrator.facts.effects.announcing import is_announcement
from migrator.facts.model import GuardFact
from migrator.facts.python.nodes import FunctionNode, argument, dotted, names_in
from migrator.facts.python.reach import is_main_guard
from migrator.facts.python.syntax import Module
from migrator.facts.wraps.wrap_calls import WrapCalls

_PARALLEL_TEST = re.compile(r"gpu|cuda|parallel|multi|device|distribut|\bdp\b|\bddp\b|world", re.IGNORECASE)
_ROLE_TEST = re.compile(r"train|eval|test|phase|mode|resume|pretrain|arch|sync|finetune", re.IGNORECASE)


def guards_around(calls: WrapCalls, module: Module, statement: ast.stmt, call: ast.Call) -> Iterator[GuardFact]:
    """The `if`s around a statement that wraps, within its function."""
    child: ast.AST = statement
    for ancestor in module.ancestors(statement):
        if isinstance(ancestor, FunctionNode | ast.ClassDef):
            return
        if isinstance(ancestor, ast.If):
            in_else = child in ancestor.orelse
            branch, other = (ancestor.orelse, ancestor.body) if in_else else (ancestor.body, ancestor.orelse)
            test = module.segment(ancestor.test)
            wraps_elsewhere = any(n in calls.inside(module) for s in other for n in ast.walk(s))
            outer = module.parents.get(ancestor)
            in_chain = _is_elif(module, ancestor) or (isinstance(outer, ast.If) and _is_elif(module, outer))
            yield GuardFact(
                at=module.span(ancestor),
                test=test,
                parallel=(is_parallel_test(test) or _counts_ids(ancestor.test, call))
                and not wraps_elsewhere
                and not is_main_guard(ancestor),
                exclusive=not in_chain
                and (
                    (
                        _only_places(module, branch, call)
                        and _only_places(module, other, call)
                        and (_moves_to_cuda(other) or not _moves_to_cuda(branch))
                    )
                    or _calls_alike(calls, module, branch, other, call)
                ),
                orelse=in_else,
                wraps_elsewhere=wraps_elsewhere,
                leaves=_leaves(module, branch[-1]),
                is_entry=is_main_guard(ancestor),
                alone=not other and not in_chain and branch == [statement],
                lines=tuple(module.span(s) for s in branch),
            )
        child = ancestor


def is_parallel_test(test: str) -> bool:
    """True when a condition asks for several devices (a count, a flag, CUDA) and for nothing else that trains."""
    names = re.findall(r"[A-Za-z_]\w*", test)
    roles = [name for name in names if _ROLE_TEST.search(name) and not _PARALLEL_TEST.search(name)]
    return bool(_PARALLEL_TEST.search(test)) and not roles


def _counts_ids(test: ast.expr, call: ast.Call) -> bool:
    """True for `len(ids) > 1` around a wrap over `ids`, and for `n > 1` around one over `range(n)`, whatever they are called."""
    ids = argument(call, "device_ids", 1)
    if ids is None or not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    counted, least = test.left, test.comparators[0]
    above = isinstance(test.ops[0], ast.Gt) and _is_number(least, 0, 1)
    if not (above or (isinstance(test.ops[0], ast.GtE) and _is_number(least, 1, 2))):
        return False
    if isinstance(counted, ast.Call) and dotted(counted.func) == "len" and len(counted.args) == 1:
        return ast.dump(counted.args[0]) == ast.dump(ids)
    if isinstance(ids, ast.Call) and dotted(ids.func) == "list" and len(ids.args) == 1:
        ids = ids.args[0]
    over = isinstance(ids, ast.Call) and dotted(ids.func) == "range" and len(ids.args) == 1
    return over and ast.dump(ids.args[0]) == ast.dump(counted)  # type: ignore[attr-defined]


def _is_number(node: ast.expr, *numbers: int) -> bool:
    return isinstance(node, ast.Constant) and node.value in numbers


def _only_places(module: Module, statements: list[ast.stmt], call: ast.Call) -> bool:
    """True when the statements only wrap, move or announce the model, or note that they did (`parallel = True`)."""
    for statement in statements:
        if isinstance(statement, ast.Pass):
            continue
        value = statement.value if isinstance(statement, ast.Assign | ast.Expr) else None
        if isinstance(statement, ast.Assign) and isinstance(value, ast.Constant) and isinstance(value.value, bool):
            continue
        if isinstance(statement, ast.Assign) and value is not None and names_in(statement.targets[0]) & names_in(value):
            continue
        if isinstance(value, ast.Call) and is_announcement(value):
            continue
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("cuda", "to"):
            continue
        if value is call or (value is not None and call in set(ast.walk(value))):
            continue
        return False
    return True


def _calls_alike(
    calls: WrapCalls, module: Module, branch: list[ast.stmt], other: list[ast.stmt], call: ast.Call
) -> bool:
    """True when one branch calls by a functional `data_parallel`, and the other one the module itself, alike."""
    if len(branch) != 1 or len(other) != 1 or not call.args or calls.nodes[call][2] != "functional":
        return False
    told = calls.functional_arguments(module, call)
    if told is None:
        return False
    text = re.sub(r"\$(\d+)", lambda hole: module.segment(told[1][int(hole[1]) - 1]), told[0])
    plain = f"({module.segment(call.args[0])})({text})"
    statement = module.segment(branch[0]).replace(module.segment(call), plain)
    return ast.dump(ast.parse(textwrap.dedent(statement))) == ast.dump(ast.Module([other[0]], []))


def _moves_to_cuda(statements: list[ast.stmt]) -> bool:
    """True when a statement calls `.cuda()` or `.to("cuda")`, which fails on a machine without a GPU."""
    for node in (n for s in statements for n in ast.walk(s)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            to = node.func.attr == "to" and any(
                isinstance(a, ast.Constant) and str(a.value).startswith("cuda") for a in node.args
            )
            if node.func.attr == "cuda" or to:
                return True
    return False


def _leaves(module: Module, last: ast.stmt) -> bool:
    """True when the statement ends the function or the program."""
    if isinstance(last, ast.Return | ast.Raise):
        return True
    value = last.value if isinstance(last, ast.Expr) else None
    return isinstance(value, ast.Call) and module.qualified(value.func) in ("sys.exit", "exit", "quit", "os._exit")


def _is_elif(module: Module, node: ast.If) -> bool:
    """True when the else branch of the `if` is spelled `elif`."""
    if len(node.orelse) != 1 or not isinstance(node.orelse[0], ast.If):
        return False
    return module.text[module.span(node.orelse[0]).start :].startswith("elif")
