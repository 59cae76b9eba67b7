"""Where the order of a set becomes the order of a list, a numbering or a table.

In: a `Program`.  Out: places, with a note where not all processes come there together.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.model import Place
from migrator.facts.processes.converted import is_settled
from migrator.facts.processes.uniform import waits_for_all
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted, walk
from migrator.facts.python.syntax import Module

_ORDERED = frozenset({"list", "tuple", "enumerate"})
_COLLECTS = frozenset({"append", "extend", "insert"})
# What gives the same for every order.
_BLIND = re.compile(r"(^|\.)(sorted|len|sum|min|max|any|all|set|frozenset|Counter|print|isin|in1d|remove|sort|unique)$")
_SET_METHODS = frozenset({"union", "intersection", "difference", "symmetric_difference"})
# Names of things that are numbers; labels and ids may be texts.
_NUMBERS = re.compile(r"(^|[._])(ind(ex|ice)s?|indexes|idxs?|pids?|cam(id)?s?)(_container|_set)?$")
IN_WORKERS = re.compile(r"^(__getitem__|__iter__|\w*collate\w*|__call__)$")


def lists_of_sets(program: Program) -> list[Place]:
    """`list(s)`, `tuple(s)`, `enumerate(s)` of sets of texts, and loops that put their elements in an order.

    Of an enumerated set, and of one that a loop goes over (its text begins with `for`), `statement` is the set's place.
    """
    found = [*_loops(program)]
    for module, call in program.calls():
        if dotted(call.func) not in _ORDERED or len(call.args) != 1 or call.keywords:
            continue
        if not _is_set(module, call.args[0], 0) or _order_is_lost(module, call) or is_settled(module, call):
            continue
        enumerated = dotted(call.func) == "enumerate"
        at = module.span(call)
        inner = module.span(call.args[0]) if enumerated else at
        found.append(Place(at, inner, module.segment(call), _note(program, module, call)))
    return found


def _loops(program: Program) -> Iterator[Place]:
    """`for name in names:` that numbers or collects, and lists made by a comprehension."""
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.For) and _numbers(node):
                whole: ast.expr | ast.stmt = node
                iterated = node.iter
            elif isinstance(node, ast.ListComp | ast.GeneratorExp) and not _order_is_lost(module, node):
                whole, iterated = node, node.generators[0].iter
            else:
                continue
            if _is_set(module, iterated, 0) and not (isinstance(iterated, ast.Call) and is_settled(module, iterated)):
                at = module.span(iterated)
                yield Place(at, at, f"for {module.segment(iterated)}", _note(program, module, whole))


def _numbers(loop: ast.For) -> bool:
    """True when what the loop makes depends on the order: it appends, or gives each element a number."""
    counters = {n.target.id for n in walk(loop) if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    for node in walk(loop):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _COLLECTS:
            return True
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            inner = [n for n in walk(node.value) if isinstance(n, ast.Name)]
            if any(n.id in counters or n.id == "len" for n in inner):
                return True
    return False


def _is_set(module: Module, node: ast.AST, depth: int) -> bool:
    if isinstance(node, ast.Call):
        name = dotted(node.func)
        if name in ("set", "frozenset"):
            return bool(node.args) and not _is_of_numbers(module, node.args[0])
        return (
            isinstance(node.func, ast.Attribute)
            and node.func.attr in _SET_METHODS
            and _is_set(module, node.func.value, depth)
        )
    if isinstance(node, ast.SetComp):
        return not _is_of_numbers(module, node)
    if isinstance(node, ast.Set):
        return any(isinstance(e, ast.Constant) and isinstance(e.value, str) for e in node.elts)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return _is_set(module, node.left, depth) and _is_set(module, node.right, depth)
    if isinstance(node, ast.Name) and depth < 3 and not _NUMBERS.search(node.id):
        lookup = module.lookup(node.id, module.scope_of.get(node, module.scope))
        values = [b.value for b in lookup[1] if b.kind != "augment"] if lookup else []
        return bool(values) and all(v is not None and _is_set_binding(module, v, depth) for v in values)
    return False


def _is_set_binding(module: Module, value: ast.AST, depth: int) -> bool:
    empty = isinstance(value, ast.Call) and dotted(value.func) == "set" and not value.args
    return empty or _is_set(module, value, depth + 1)


def _is_of_numbers(module: Module, node: ast.AST) -> bool:
    """What is no text hashes alike in all processes: `range(...)`, `int(...)`, numpy arrays, devices and the names that say so."""
    text = module.segment(node)
    if isinstance(node, ast.SetComp | ast.GeneratorExp | ast.ListComp):
        node = node.elt
        text = module.segment(node)
    if isinstance(node, ast.Call):
        name = dotted(node.func) or ""
        if name in ("range", "int", "len") or name.endswith(
            (".tolist", ".nonzero", ".argsort", ".numpy", ".get_device", ".size", ".dim")
        ):
            return True
    return bool(
        re.search(
            r"(^|[._])(ind(ex|ice)?s?|indexes|idxs?|ids?|pids?|cams?|camids?|targets|labels?|y|num\w*|device|dtype)$",
            text,
        )
    )


def _order_is_lost(module: Module, call: ast.expr) -> bool:
    """True when the list is sorted, counted or searched at once, or by the next statements."""
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, ast.Call) and _BLIND.search(dotted(ancestor.func) or ""):
            return True
        if isinstance(ancestor, ast.Compare) and any(isinstance(op, ast.In | ast.NotIn) for op in ancestor.ops):
            return True
        if isinstance(ancestor, ast.stmt):
            break
    statement = module.statement(call)
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        name = dotted(statement.targets[0])
        block = module.block(statement)
        following = block[block.index(statement) + 1 :] if statement in block else []
        for later in following:
            text = module.segment(later)
            if name and re.match(rf"{re.escape(name)}\s*(\.sort\(|=\s*sorted\({re.escape(name)}\b)", text):
                return True
    return False


def _note(program: Program, module: Module, call: ast.expr | ast.stmt) -> str:
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, FunctionNode):
            if IN_WORKERS.match(getattr(ancestor, "name", "")):
                return "it is made where data is loaded"
            if _is_network_s(program, module, ancestor):
                return "it is made while the model runs"
            break
    if module is not program.entry_module and module.scope_of.get(call, module.scope) is module.scope:
        return "it is made while the module is imported"
    return "" if waits_for_all(program, module.span(module.statement(call))) else "not all processes make it together"


def _is_network_s(program: Program, module: Module, function: ast.AST) -> bool:
    """True for a method of a module of torch that runs with it: of a small batch not every process runs it."""
    owner = module.parents.get(function)
    if not isinstance(owner, ast.ClassDef) or getattr(function, "name", "") == "__init__":
        return False
    return any(base.startswith("torch.nn.") for base in program.resolver.external_bases(module, owner))
