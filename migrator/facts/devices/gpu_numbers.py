"""Places that put together the name of a GPU, or give its number where any device may stand.

In: a `Program`.  Out: `DeviceLiteral`s of kind `name` (`"cuda:%d" % gpu`), `number` (`x.to(0)`, `device=gpu_ids[0]`), `context` (the
number in `with torch.cuda.device(0):`) and `map` (`{"cuda:0": "cuda:1"}`, from the GPUs of a checkpoint to others).  Fixed names and `.cuda(0)` are `Program.device_literals`.  What a rank or a loop
counts is no fixed GPU and left out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.model import DeviceLiteral
from migrator.facts.program import Program
from migrator.facts.python.nodes import names_in
from migrator.facts.python.syntax import Module

_GPU = re.compile(r"(^|[._])(gpu|(gpu|cuda|device)_?(id|index|idx|num|no))$", re.IGNORECASE)
_LIST = re.compile(r"(^|\.)ids$|(^|[._])(gpus|devices|(gpu|cuda|device)_?(ids|list))$", re.IGNORECASE)
_RANK = re.compile(r"rank|proc|worker", re.IGNORECASE)
_ASKS = re.compile(r"torch\.cuda\.(get_device|memory|max_memory|reset|mem_get|utilization|synchronize)")


def gpu_numbers(program: Program) -> list[DeviceLiteral]:
    """All such places, in source order of each module."""
    found = []
    for module in program.modules:
        if "cuda" not in module.text and "gpu" not in module.text and ".to(" not in module.text:
            continue
        for node in module.nodes:
            for kind, part in _parts(program, module, node):
                if kind == "map" or not (_is_counted(module, part) or _only_asks(program, module, part)):
                    statement = module.statement(part)
                    found.append(DeviceLiteral(kind, module.span(part), module.span(statement), module.segment(part)))
    return found


def _parts(program: Program, module: Module, node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call) and _is_name(node):
        yield "name", node
    if isinstance(node, ast.Dict) and node.keys and all(k is not None and _names_gpu(k) for k in node.keys):
        yield "map", node
    if not isinstance(node, ast.Call):
        return
    for keyword in node.keywords:
        if keyword.arg == "device" and _is_number(module, keyword.value) and not _moves(node):
            yield "number", keyword.value
    if len(node.args) != 1 or not _is_number(module, node.args[0]):
        return
    is_move = isinstance(node.func, ast.Attribute) and node.func.attr == "to"
    name = program.external(module, node)
    if is_move or name in ("torch.device", "torch.cuda.device"):
        yield "context" if name == "torch.cuda.device" else "number", node.args[0]


def _names_gpu(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr | ast.BinOp | ast.Call):
        return _is_name(node)
    return re.fullmatch(r"cuda:\d+", _text(node)) is not None


def _moves(call: ast.Call) -> bool:
    """`x.cuda(device=0)`, which is a device literal already."""
    return isinstance(call.func, ast.Attribute) and call.func.attr == "cuda"


def _is_name(node: ast.JoinedStr | ast.BinOp | ast.Call) -> bool:
    """`f"cuda:{gpu}"`, `"cuda:" + str(gpu)`, `"cuda:%d" % gpu`, `"cuda:{}".format(gpu)`, and nothing around them."""
    if isinstance(node, ast.JoinedStr):
        return len(node.values) == 2 and _text(node.values[0]) == "cuda:"
    if isinstance(node, ast.BinOp):
        text = _text(node.left)
        return (isinstance(node.op, ast.Add) and text == "cuda:") or (
            isinstance(node.op, ast.Mod) and text in ("cuda:%d", "cuda:%s")
        )
    return (
        isinstance(node.func, ast.Attribute)
        and node.func.attr == "format"
        and re.fullmatch(r"cuda:\{0?\}", _text(node.func.value)) is not None
    )


def _text(node: ast.AST) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _is_number(module: Module, node: ast.expr) -> bool:
    """The first GPU's number, or what is called like the number of a chosen one."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Subscript):
        first = isinstance(node.slice, ast.Constant) and node.slice.value == 0
        return first and bool(_LIST.search(module.segment(node.value)))
    return isinstance(node, ast.Name | ast.Attribute) and bool(_GPU.search(module.segment(node)))


def _is_counted(module: Module, node: ast.AST) -> bool:
    """True for the number of a rank, and for one of all GPUs in turn: not where the turns only make a list of them."""
    for name in names_in(node):
        if _RANK.search(name):
            return True
        found = module.lookup(name, module.scope_of.get(node, module.scope))
        if found is not None and any(binding.kind in ("for", "item", "loop") for binding in found[1]):
            return not _is_collected(module, node)
    return bool(_RANK.search(module.segment(node)))


def _is_collected(module: Module, node: ast.AST) -> bool:
    """True in `[f"cuda:{i}" for i in ids]`, and in a loop that appends to a list and moves nothing."""
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.ListComp):
            return True
        if isinstance(ancestor, ast.For):
            calls = [
                n.func.attr for n in ast.walk(ancestor) if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute)
            ]
            return "append" in calls and not {"to", "cuda"} & set(calls)
        if isinstance(ancestor, ast.FunctionDef | ast.ClassDef):
            break
    return False


def _only_asks(program: Program, module: Module, node: ast.AST) -> bool:
    parent = module.parents.get(node)
    return isinstance(parent, ast.Call) and bool(_ASKS.match(program.external(module, parent)))
