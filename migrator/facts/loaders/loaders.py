"""DataLoaders and the loops over them.

In: a `Program`.  Out: the calls that make the loaders of a loop, and what their arguments say about the samples.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module

DATA_LOADER = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})
_TAKES, _ADDS = (
    frozenset({"remove", "pop", "popleft", "popitem"}),
    frozenset({"append", "extend", "add", "insert", "update"}),
)
_LOADING_ONLY = frozenset({"num_workers", "pin_memory", "prefetch_factor", "persistent_workers", "timeout"})


def for_loops(program: Program) -> Iterator[tuple[Module, ast.For]]:
    """Loops over something that may be a loader."""
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.For) and not is_counting(node.iter):
                yield module, node


def is_counting(node: ast.expr) -> bool:
    """`range(n)` and its like."""
    return isinstance(node, ast.Call) and dotted(node.func) in ("range", "trange", "xrange", "tqdm.trange")


def counts(program: Program, module: Module, node: ast.expr) -> bool:
    """True for `range(n)` and its like, also behind a progress bar, and under a name."""
    if isinstance(node, ast.Name):
        found = module.lookup(node.id, module.scope_of.get(node, module.scope))
        values = [binding.value for binding in (found[1] if found else [])]
        return len(values) == 1 and isinstance(values[0], ast.Call) and counts(program, module, values[0])
    bar = isinstance(node, ast.Call) and (dotted(node.func) or "").rpartition(".")[2] == "tqdm" and node.args
    return is_counting(node.args[0] if isinstance(node, ast.Call) and bar else node)


def loaders_at(program: Program, module: Module, node: ast.expr) -> list[tuple[Module, ast.Call]]:
    """The DataLoader calls that an expression may be; none where it may be something else."""
    found = []
    for value in program.resolver.values(module, node):
        if value.kind == "call" and value.name in DATA_LOADER and isinstance(value.node, ast.Call) and value.module:
            found.append((value.module, value.node))
        elif not (value.kind == "constant" and getattr(value.node, "value", 0) is None):
            return []
    return found


_BARS = frozenset({"enumerate", "tqdm", "iter", "track", "progress_bar", "Bar"})


def iterated(program: Program, module: Module, node: ast.expr, depth: int = 4) -> ast.expr:
    """The loader inside `enumerate(tqdm(loader))` and its like, also under a name, or on both sides of a choice."""
    while isinstance(node, ast.Call) and _is_bar(node):
        node = node.args[0]
    if isinstance(node, ast.IfExp):
        sides = [iterated(program, module, side, depth) for side in (node.body, node.orelse)]
        return sides[0] if module.segment(sides[0]) == module.segment(sides[1]) else node
    if not isinstance(node, ast.Name):
        return node
    found = module.lookup(node.id, module.scope_of.get(node, module.scope))
    bindings = found[1] if found and depth else []
    inner = bindings[0].value if len(bindings) == 1 and bindings[0].kind in ("assign", "with") else None
    wraps = isinstance(inner, ast.IfExp) or (isinstance(inner, ast.Call) and _is_bar(inner))
    return iterated(program, module, inner, depth - 1) if isinstance(inner, ast.expr) and wraps else node


def _is_bar(call: ast.Call) -> bool:
    return bool(call.args) and (dotted(call.func) or "").rpartition(".")[2] in _BARS


def is_endless(program: Program, module: Module, node: ast.expr) -> bool:
    """A sampler of the program's own with an open loop in its iterator, or one that could not be found."""
    for value in program.resolver.values(module, node):
        if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
            found = program.resolver.definition(value.module.qualified(value.node.func), value.module)
            if found is None or not isinstance(found[1], ast.ClassDef):
                return True
            iterator = program.resolver.method(found[0], found[1], "__iter__")
            if iterator is None or any(isinstance(n, ast.While) and _may_go_on(n) for n in ast.walk(iterator[1])):
                return True
        elif value.kind not in ("call", "constant") or (
            value.kind == "call" and not value.name.startswith("torch.utils.data")
        ):
            return True
    return False


def _may_go_on(loop: ast.While) -> bool:
    """True unless the loop takes away from what its condition counts: `while len(left) >= n` with `left.remove(one)`."""
    counted = {
        dotted(n.args[0])
        for n in ast.walk(loop.test)
        if isinstance(n, ast.Call) and dotted(n.func) == "len" and len(n.args) == 1
    } | {dotted(loop.test)}
    inside = [n for statement in loop.body for n in ast.walk(statement)]
    taken = {
        dotted(n.func.value)
        for n in inside
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _TAKES
    }
    grown = {
        dotted(n.func.value)
        for n in inside
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr in _ADDS
    }
    return not (counted & taken - grown - {None})


def unpacks_harmless(program: Program, module: Module, call: ast.Call) -> bool:
    """`**kwargs` that only say how batches are loaded, not which."""
    unpacked = [k.value for k in call.keywords if k.arg is None]
    values = [v for node in unpacked for v in program.resolver.values(module, node) if v.kind != "constant"]
    keys = [
        k.value if isinstance(k, ast.Constant) else None
        for v in values
        if isinstance(v.node, ast.Dict)
        for k in v.node.keys
    ]
    known = bool(values) and all(isinstance(v.node, ast.Dict) for v in values)
    return known and not any(isinstance(a, ast.Starred) for a in call.args) and set(keys) <= _LOADING_ONLY


def is_stream(program: Program, module: Module, dataset: ast.expr) -> bool:
    """True for a data set without an index."""
    for value in program.resolver.values(module, dataset):
        if value.kind == "instance" and isinstance(value.node, ast.Call) and value.module is not None:
            found = program.resolver.definition(value.module.qualified(value.node.func), value.module)
            if found is not None and isinstance(found[1], ast.ClassDef):
                bases = program.resolver.external_bases(found[0], found[1])
                if any(base.endswith("IterableDataset") for base in bases):
                    return True
    return False


def is_none(node: ast.AST | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
