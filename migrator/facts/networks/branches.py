"""Branches of a forward pass that samples or chance decide: other parts of the model take part on another process.

In: the methods that the wrapped models' forward passes go through.  Out: each such branch with what decides it.  A number that
the program hands down (a depth, the index of a layer) decides the same everywhere; so it is followed from call to call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted, names_in, walk
from migrator.facts.python.syntax import Module, Span

_MEASURES = frozenset(
    ["shape", "size", "dim", "ndim", "dtype", "device", "is_cuda", "requires_grad", "training", "numel"]
)
BY_SAMPLES = "samples decide which parts of the model run"
BY_CHANCE = "chance decides which parts of the model run"
_RANDOM = ("torch.rand", "torch.bernoulli", "numpy.random.", "random.")


@dataclass(frozen=True, slots=True)
class _Site:
    """A call of a method, and the method that it stands in."""

    module: Module
    caller: ast.FunctionDef
    call: ast.Call


class Branches:
    """What the branches of the given classes depend on."""

    def __init__(self, program: Program, classes: Sequence[tuple[Module, ast.ClassDef]]):
        self.program, self.classes = program, classes
        self._sites: dict[ast.AST, list[_Site]] | None = None
        self._known: dict[ast.FunctionDef, frozenset[str]] = {}

    def of(self, module: Module, function: ast.FunctionDef) -> Iterator[tuple[Module, ast.AST, str]]:
        """The branches of one method that not every process may take alike."""
        tainted = _spread(function, _without_default(function))
        for node in walk(function):
            if not isinstance(node, ast.If | ast.While | ast.IfExp) or not _decides(node, function):
                continue
            if _in_evaluation(module, node, function):
                continue
            if _by_chance(self.program, module, node.test):
                yield module, node, BY_CHANCE
            elif _by_samples(node.test, tainted) and _by_samples(node.test, self.samples(function)):
                yield module, node, BY_SAMPLES

    def samples(self, function: ast.FunctionDef) -> set[str]:
        """Names of a method that hold samples or what was made of them, as far as its callers give it any."""
        return _spread(function, self._parameters(function))

    def _parameters(self, function: ast.FunctionDef) -> frozenset[str]:
        if function not in self._known:
            self._known[function] = frozenset()  # for a method that calls itself: what it hands on is what it was given
            own = _without_default(function)
            sites = self.sites.get(function, [])
            self._known[function] = frozenset(
                own - _compared(function) if not sites else {p for site in sites for p in self._handed(function, site)}
            )
        return self._known[function]

    def _handed(self, function: ast.FunctionDef, site: _Site) -> Iterator[str]:
        tainted = self.samples(site.caller)
        names = [a.arg for a in function.args.args][1:]
        for i, name in enumerate(names):
            given = argument(site.call, name, i)
            if given is not None and not _only_measures(given, tainted):
                yield name
        if any(isinstance(a, ast.Starred) for a in site.call.args) or any(k.arg is None for k in site.call.keywords):
            yield from names

    @property
    def sites(self) -> dict[ast.AST, list[_Site]]:
        """Calls of methods of these classes within them, by method."""
        if self._sites is None:
            self._sites = {}
            for module, node in self.classes:
                for caller in node.body:
                    for call in walk(caller) if isinstance(caller, ast.FunctionDef) else ():
                        if isinstance(call, ast.Call) and isinstance(caller, ast.FunctionDef):
                            for method in self._called(module, node, caller, call):
                                self._sites.setdefault(method, []).append(_Site(module, caller, call))
        return self._sites

    def _called(
        self, module: Module, node: ast.ClassDef, caller: ast.FunctionDef, call: ast.Call
    ) -> Iterator[ast.FunctionDef]:
        resolver, func = self.program.resolver, call.func
        if isinstance(func, ast.Attribute) and is_own(func.value, caller):
            method = resolver.method(module, node, func.attr)
            if method is not None and isinstance(method[1], ast.FunctionDef):
                yield method[1]
                return
        if not isinstance(func, ast.Attribute | ast.Subscript | ast.Name):
            return
        for value in resolver.values(module, func):
            if value.kind == "instance" and value.module is not None and isinstance(value.node, ast.Call):
                found = resolver.definition(value.module.qualified(value.node.func), value.module)
                if found is not None and isinstance(found[1], ast.ClassDef):
                    method = resolver.method(found[0], found[1], "forward")
                    if method is not None and isinstance(method[1], ast.FunctionDef):
                        yield method[1]


def is_own(node: ast.AST, method: ast.FunctionDef) -> bool:
    """True for the method's `self`."""
    return isinstance(node, ast.Name) and bool(method.args.args) and node.id == method.args.args[0].arg


def _without_default(function: ast.FunctionDef) -> set[str]:
    parameters = function.args.args[1:]
    named = len(function.args.defaults)
    return {a.arg for a in (parameters[:-named] if named else parameters)}


def _compared(function: ast.FunctionDef) -> set[str]:
    """Parameters that a branch compares with a number as they are: no batch can be, so the program gives a setting."""
    return {
        node.left.id
        for branch in walk(function)
        if isinstance(branch, ast.If | ast.IfExp)
        for node in walk(branch.test)
        if isinstance(node, ast.Compare) and isinstance(node.left, ast.Name)
        if all(isinstance(c, ast.Constant) and isinstance(c.value, int) for c in node.comparators)
    }


def _spread(function: ast.FunctionDef, given: set[str] | frozenset[str]) -> set[str]:
    """The given names, and those that get their values from them."""
    tainted = set(given)
    for _ in range(2):
        for node in walk(function):
            if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Constant):
                if names_in(node.value) & tainted and not _only_measures(node.value, tainted):
                    tainted |= {name for target in node.targets for name in _bound(target)} - {"self"}
    return tainted


def _bound(target: ast.AST) -> set[str]:
    """The names that an assignment changes: of `x[i]` it is `x`."""
    if isinstance(target, ast.Tuple | ast.List):
        return {name for element in target.elts for name in _bound(element)}
    while isinstance(target, ast.Subscript | ast.Attribute | ast.Starred):
        target = target.value
    return {target.id} if isinstance(target, ast.Name) else set()


def _decides(node: ast.If | ast.While | ast.IfExp, function: ast.FunctionDef) -> bool:
    """True when a branch leads to another end or to other parts of the module."""
    parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [*node.body, *node.orelse]
    inside = [n for part in parts for n in walk(part)]
    uses_parts = any(is_own(n, function) for n in inside)
    if any(isinstance(n, ast.Raise) for n in inside) and not uses_parts:
        return False
    return uses_parts or any(isinstance(n, ast.Return | ast.Continue | ast.Break) for n in inside)


def _in_evaluation(module: Module, node: ast.AST, function: ast.FunctionDef) -> bool:
    """True for what only runs while `self.training` does not hold: no gradient depends on it."""
    child = node
    for parent in module.ancestors(node):
        if parent is function:
            return False
        if isinstance(parent, ast.If):
            test, negated = parent.test, False
            if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
                test, negated = test.operand, True
            if isinstance(test, ast.Attribute) and test.attr == "training" and is_own(test.value, function):
                block: Span = module.span(child)
                inside = any(module.span(s).contains(block) for s in (parent.body if negated else parent.orelse))
                if inside:
                    return True
        child = parent
    return False


def _by_chance(program: Program, module: Module, test: ast.AST) -> bool:
    return any(isinstance(n, ast.Call) and program.external(module, n).startswith(_RANDOM) for n in walk(test))


def _by_samples(test: ast.AST, tainted: set[str]) -> bool:
    if isinstance(test, ast.BoolOp):
        return any(_by_samples(part, tainted) for part in test.values)
    if isinstance(test, ast.UnaryOp):
        return _by_samples(test.operand, tainted)
    if isinstance(test, ast.Call) and dotted(test.func) in ("isinstance", "hasattr", "callable", "torch.is_tensor"):
        return False
    if isinstance(test, ast.Compare):
        sides = [test.left, *test.comparators]
        if any(isinstance(s, ast.Constant) and (s.value is None or isinstance(s.value, str | bool)) for s in sides):
            return False
        if any(isinstance(op, ast.Is | ast.IsNot | ast.In | ast.NotIn) for op in test.ops):
            return False
    return bool(names_in(test) & tainted) and not _only_measures(test, tainted)


def _only_measures(node: ast.AST, tainted: set[str]) -> bool:
    """True when the names are only asked for their size and the like."""
    if isinstance(node, ast.Attribute) and node.attr in _MEASURES:
        return True
    if isinstance(node, ast.Call) and dotted(node.func) == "len":
        return True
    if isinstance(node, ast.Name):
        return node.id not in tainted
    return all(_only_measures(child, tainted) for child in ast.iter_child_nodes(node))
