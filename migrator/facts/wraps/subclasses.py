"""What a project's own subclass of DataParallel does otherwise than torch's.

In: a `Program` and the class.  Out: the reason why equal shares and joined outputs would not do the same, or the empty text when
the class only chooses shares or places, as one that gives the first GPU less to do; and what a class that only adds something
(a way to the module's attributes, methods) needs to be kept with another base.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted
from migrator.facts.python.syntax import Module, Span
from migrator.facts.wraps.wrapper_names import DATA_PARALLEL

_SLICES = re.compile(r"(^|\.)(scatter\w*|chunk|split|narrow|tensor_split)$")
_METHODS = ("replicate", "gather", "scatter", "forward")
_CONSTRUCTOR = ("module", "device_ids", "output_device", "dim")  # of torch's, in order


@dataclass(frozen=True, slots=True)
class KeptClass:
    """A subclass that only adds to DataParallel: `base` is what it derives from, `name` how the wrap spells it.

    `constructors` are calls of the base's `__init__` that hand on devices, each with the arguments that are left.
    """

    base: Span
    name: str
    constructors: tuple[tuple[Span, str], ...]


def own_way(program: Program, at: Span) -> str:
    """Why the subclass that is called at a place cannot be replaced by equal shares of the batch."""
    callee = _class_called(program, at)
    if callee is None:
        return ""
    more = sorted(_members(program, *callee) - {*_METHODS, "parallel_apply", "__init__"})
    own = sorted(_members(program, *callee) & {*_METHODS, "parallel_apply"})
    if more and (own or _bases_of_torch(program, *callee) is None):
        return f"it has {more[0]}() beside {own[0] if own else '__init__'}()"
    for name in _METHODS:
        method = program.resolver.method(callee[0], callee[1], name)
        if method is None:
            continue
        calls = [dotted(n.func) or "" for n in ast.walk(method[1]) if isinstance(n, ast.Call)]
        if name == "replicate":
            return "its replicate() ties the replicas to each other, as synchronised batch norm does"
        if name == "gather":
            return "its gather() does not join the outputs as torch's does"
        if name == "scatter" and not (_slices(method[1]) or any(_SLICES.search(c) for c in calls)):
            return "its scatter() does not cut the batch into equal parts"
        if name == "forward" and not any(c in ("self.gather", "super.forward") for c in calls):
            if not any(isinstance(n, ast.Attribute) and n.attr == "forward" for n in ast.walk(method[1])):
                return "its forward() does not end with the joined outputs"
    return ""


def kept_class(program: Program, at: Span) -> KeptClass | None:
    """The subclass that is called at a place, when it adds something that the program may use: attributes or methods."""
    callee = _class_called(program, at)
    if callee is None or not _members(program, *callee) - {*_METHODS, "parallel_apply", "__init__"}:
        return None
    found = _bases_of_torch(program, *callee)
    if found is None:
        return None
    module = program.module_at(at)
    called = next(n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == at)
    owner, base = found
    return KeptClass(owner.span(base), module.segment(called.func), tuple(_constructors(program, *callee)))


def chooses_shares(program: Program, at: Span) -> bool:
    """True when the subclass that is called at a place shares the batch out in a way of its own."""
    callee = _class_called(program, at)
    return callee is not None and bool(_members(program, *callee) & {*_METHODS, "parallel_apply"})


def _class_called(program: Program, at: Span) -> tuple[Module, ast.ClassDef] | None:
    module = program.module_at(at)
    call = next((n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == at), None)
    callee = program.resolver.callee(module, call) if call is not None else None
    return (callee[0], callee[1]) if callee is not None and isinstance(callee[1], ast.ClassDef) else None


def _members(program: Program, module: Module, node: ast.ClassDef) -> set[str]:
    """Names that the class and its bases in the project give to methods and attributes."""
    found: set[str] = set()
    for _, one in program.resolver.bases(module, node):
        for statement in one.body:
            if isinstance(statement, ast.FunctionDef):
                found.add(statement.name)
            elif isinstance(statement, ast.Assign):
                found.update(t.id for t in statement.targets if isinstance(t, ast.Name))
    return found


def _bases_of_torch(program: Program, module: Module, node: ast.ClassDef) -> tuple[Module, ast.expr] | None:
    """The one base that is torch's DataParallel, where the constructors take nothing but what DataParallel's takes."""
    bases = [
        (owner, base)
        for owner, one in program.resolver.bases(module, node)
        for base in one.bases
        if (program.resolver.external_name(owner, base) or "") in DATA_PARALLEL
    ]
    for _, one in program.resolver.bases(module, node):
        for init in (s for s in one.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"):
            names = [a.arg for a in (*init.args.posonlyargs, *init.args.args, *init.args.kwonlyargs)][1:]
            if names and (names[0] != "module" or not set(names) <= set(_CONSTRUCTOR)):
                return None
    return bases[0] if len(bases) == 1 else None


def _constructors(program: Program, module: Module, node: ast.ClassDef) -> Iterator[tuple[Span, str]]:
    for owner, one in program.resolver.bases(module, node):
        inits = [s for s in one.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"]
        for call in (c for init in inits for c in ast.walk(init) if isinstance(c, ast.Call)):
            if not (isinstance(call.func, ast.Attribute) and call.func.attr == "__init__"):
                continue
            if any(isinstance(a, ast.Starred) for a in call.args) or any(k.arg is None for k in call.keywords):
                continue
            first = 0 if isinstance(call.func.value, ast.Call) else 1  # `nn.DataParallel.__init__(self, module)`
            given = [argument(call, name, first + place) for place, name in enumerate(_CONSTRUCTOR)]
            if given[0] is not None and (given[1] is not None or given[2] is not None):
                texts = [owner.segment(a) for a in call.args[:first]] + [owner.segment(given[0])]
                texts += [f"dim={owner.segment(given[3])}"] if given[3] is not None else []
                yield owner.span(call), f"{owner.segment(call.func)}({', '.join(texts)})"


def _slices(function: ast.AST) -> bool:
    return any(isinstance(n, ast.Slice) and n.lower is not None and n.upper is not None for n in ast.walk(function))


def is_mentioned(program: Program, at: Span) -> bool:
    """False when the place is in a function that nothing in the program names."""
    module = program.module_at(at)
    node = next((n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == at), None)
    outer = [a for a in module.ancestors(node) if isinstance(a, ast.FunctionDef)] if node is not None else []
    if not outer or module.parents.get(outer[-1]) is not module.tree:
        return True
    name, inside = outer[-1].name, set(ast.walk(outer[-1]))
    return any(
        (isinstance(n, ast.Name) and n.id == name)
        or (isinstance(n, ast.Attribute) and n.attr == name)
        or (isinstance(n, ast.alias) and n.name == name and other is program.entry_module)
        or (isinstance(n, ast.Constant) and n.value == name)
        for other in program.modules
        for n in other.nodes
        if n not in inside
    )


def class_tests(program: Program) -> list[tuple[Module, ast.expr]]:
    """Names of own subclasses of DataParallel as the second argument of `isinstance`."""
    found = []
    for module, call in program.calls():
        if dotted(call.func) != "isinstance" or len(call.args) != 2:
            continue
        classes = call.args[1].elts if isinstance(call.args[1], ast.Tuple) else [call.args[1]]
        for one in classes:
            definition = program.resolver.definition(module.qualified(one), module)
            if definition is not None and isinstance(definition[1], ast.ClassDef):
                if program.resolver.external_bases(definition[0], definition[1]) & DATA_PARALLEL:
                    found.append((module, one))
    return found
