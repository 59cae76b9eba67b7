"""The model of which only a part is wrapped: whether the rest may be run on each process's share of a batch, too.

In: the place where the part is wrapped.  Out: what speaks against it.  The class is read where it is the program's own; of
torchvision's models it is known which of them have nothing but sample-wise layers beside a part.  What is not found speaks against.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.accelerate.bare import only_kept
from migrator.facts.networks.sample_wise import SampleWise
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value
from migrator.facts.wraps.wrapper_names import DATA_PARALLEL, DISTRIBUTED

# Parts of torchvision's models beside which every layer is sample-wise, by how the names of the models begin.
SAMPLE_WISE_BESIDE = {"features": ("alexnet", "vgg", "densenet", "squeezenet", "mobilenet_v2")}
# Of these, those that have dropout beside the part.
_DRAWING = ("alexnet", "vgg", "squeezenet", "mobilenet_v2")
_LIBRARY = "torchvision.models"
# What a wrapped model has itself.
_OF_EVERY_MODEL = frozenset(
    [
        *("parameters", "modules", "train", "eval", "training", "cuda", "to", "zero_grad", "apply", "load_state_dict"),
        *("state_dict", "module", "register_forward_hook", "__class__", "requires_grad_", "half", "float", "double"),
    ]
)
_ADDING = frozenset(["add_module", "append", "insert", "extend", "register_module"])
_OF_PARAMETERS = frozenset(["data", "grad", "requires_grad", "weight", "bias"])


class PartModel:
    """`against` is the first thing that speaks against wrapping the whole; `draws` a dropout beside the part."""

    def __init__(self, program: Program, module: Module, statement: ast.stmt, part: ast.Attribute):
        self.program, self.module, self.statement, self.part = program, module, statement, part
        self.against, self.draws = "", ""
        self.makers: list[Value] = []
        for value in program.resolver.values(module, part.value):
            if value.name not in DATA_PARALLEL | DISTRIBUTED:
                self.makers.append(value)
                self._made(value)
        if not self.makers:
            self._stop("where the model is made was not found")
        self._check_uses()

    def _stop(self, told: str) -> None:
        self.against = self.against or told

    def _beside(self) -> SampleWise:
        return SampleWise(self.program, self.part.attr)

    def _take(self, rest: SampleWise) -> None:
        self.draws = self.draws or rest.draws
        self._stop(rest.against)

    # ---------------------------------------------------------------- what it is
    def _made(self, value: Value) -> None:
        resolver = self.program.resolver
        found = resolver.class_of(value)
        if found is not None and value.kind == "instance":
            self._class(*found, value)
        elif value.kind == "call" and value.name.startswith(f"{_LIBRARY}."):
            self._of_library([value.name.rpartition(".")[2]])
        elif value.kind == "call" and isinstance(value.node, ast.Call) and value.module is not None:
            self._from_table(value.module, value.node)
        else:
            self._stop("where the model is made was not found")

    def _class(self, module: Module, node: ast.ClassDef, value: Value | None = None) -> None:
        if not self._has_part(module, node):
            return  # nobody comes to this wrap with such a model: it would be an error
        rest = self._beside()
        rest.of_class(module, node)
        self._take(rest)
        function = value.module.enclosing_function(value.node) if value and value.module and value.node else None
        if function is not None and function is not self.module.enclosing_function(self.statement):
            if len(self.program.resolver.call_sites(function)) > 1:
                self._stop(f"{function.name} makes more than one model")

    def _has_part(self, module: Module, node: ast.ClassDef) -> bool:
        """False for a class of which nothing is ever called like the part."""
        resolver, name = self.program.resolver, self.part.attr
        if not {base.rpartition(".")[2] for base in resolver.external_bases(module, node)} <= {"Module", "object"}:
            return True
        family = resolver.family(module, node)
        classes = (cls for owner in self.program.modules for cls in owner.nodes if cls in family)
        return any(_may_give(part, name) for cls in classes for part in ast.walk(cls))

    def _of_library(self, names: list[str]) -> None:
        known = SAMPLE_WISE_BESIDE.get(self.part.attr, ())
        if not names or not all(name.startswith(known) for name in names):
            self._stop("what else torchvision's model has beside it is not known")
        self.draws = self.draws or next((name for name in names if name.startswith(_DRAWING)), "")

    def _from_table(self, module: Module, call: ast.Call) -> None:
        """`models.__dict__[args.arch]()`: of the models in a table those that the test around the wrap lets through."""
        owner, key = _table(call.func)
        # What stands in a dictionary has other names there than where it is defined.
        names = self._asked_for(module.segment(key)) if key is not None and not _is_dictionary(call.func) else None
        candidates = self.program.resolver.candidates(module, call.func)
        if owner is None or not candidates:
            self._stop("where the model is made was not found")
            return
        for candidate in candidates:
            if candidate.kind == "module" and candidate.name == _LIBRARY and names is not None:
                self._of_library(names)
                self._added(module, owner, names)
            elif isinstance(candidate.node, ast.ClassDef | ast.FunctionDef) and candidate.module is not None:
                if names is None or candidate.node.name.startswith(tuple(names)):
                    self._defined(candidate.module, candidate.node)
            else:
                self._stop("which models the table holds is not known")
        self._unlisted(module, owner, names, candidates)

    def _added(self, module: Module, owner: ast.expr, names: list[str]) -> None:
        """What the program writes into a library's table may be any of its own definitions."""
        text = module.segment(owner)
        for node in module.nodes:
            if (
                isinstance(node, ast.Subscript)
                and isinstance(node.ctx, ast.Store)
                and module.segment(node.value) == text
            ):
                for name, (home, made) in self.program.resolver.definitions.items():
                    if name.rpartition(".")[2].startswith(tuple(names)):
                        self._defined(home, made)
                return

    def _unlisted(self, module: Module, owner: ast.expr, names: list[str] | None, listed: list[Value]) -> None:
        """Names of a module that are bound otherwise than by a definition are not among the candidates."""
        owner = owner.value if isinstance(owner, ast.Attribute) and owner.attr == "__dict__" else owner
        home = self.program.resolver.find_module(module.qualified(owner) or "", module)
        known = {v.node.name for v in listed if isinstance(v.node, ast.ClassDef | ast.FunctionDef)}
        for name in home.scope.bindings if home is not None else ():
            wanted = names is None or name.startswith(tuple(names))
            assigned = home is not None and any(b.kind == "assign" for b in home.scope.bindings[name])
            if wanted and assigned and name not in known and not name.startswith("_"):
                self._stop(f"which model `{name}` is was not found")

    def _defined(self, module: Module, node: ast.AST) -> None:
        if isinstance(node, ast.ClassDef):
            self._class(module, node)
            return
        for owner, returned in self.program.resolver.returns(module, node):
            for value in self.program.resolver.values(owner, returned):
                found = self.program.resolver.class_of(value)
                if found is None or value.kind != "instance":
                    self._stop("where the model is made was not found")
                else:
                    self._class(*found)

    def _asked_for(self, key: str) -> list[str] | None:
        """How the names begin that the nearest test around the wrap asks for; None where it asks for something else."""
        child: ast.AST = self.statement
        for ancestor in self.module.ancestors(self.statement):
            if isinstance(ancestor, ast.If) and child in ancestor.body:
                test = ancestor.test
                parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
                names = [_beginnings(self.module, part, key) for part in parts]
                if all(names):
                    return [name for group in names for name in group]
            child = ancestor
        return None

    # ---------------------------------------------------------------- what is done with it
    def _check_uses(self) -> None:
        made = {value.node for value in self.makers}
        for owner in self.program.modules:
            for node in owner.nodes:
                if self.against:
                    return
                if not isinstance(node, ast.Attribute) or dotted(node.value) is None or self._is_wrap(owner, node):
                    continue
                if node.attr in _OF_EVERY_MODEL and node.attr != "state_dict":
                    continue
                values = self.program.resolver.values(owner, node.value)
                if any(value.node in made for value in values) and not self.program.is_unreached(owner, node):
                    self._check_use(owner, node)

    def _is_wrap(self, owner: Module, node: ast.AST) -> bool:
        statement = owner.statement(node)
        return any(wrap.submodule and owner.span(statement) == wrap.statement for wrap in self.program.wraps)

    def _check_use(self, owner: Module, node: ast.Attribute) -> None:
        place = f"{owner.path}:{owner.span(node).line}"
        if node.attr == "state_dict":
            call = owner.parents.get(node)
            if isinstance(call, ast.Call) and not only_kept(owner, call) and not self._is_before(owner, node):
                self._stop(f"the keys of its weights are looked at: {place}")
        elif not self._is_before(owner, node):
            self._stop(f"`{owner.segment(node)}` is used past the wrapper that the whole would have: {place}")
        elif node.attr != self.part.attr:
            self._check_change(owner, node, place)

    def _is_before(self, owner: Module, node: ast.AST, depth: int = 3) -> bool:
        """True for what is done only above the wrap in its function, also by functions that are called there: to the bare model."""
        home = self.module.enclosing_function(self.statement)
        function = owner.enclosing_function(node)
        if owner is self.module and function is home:
            above = owner.span(node).start < self.module.span(self.statement).start
            return above and owner.enclosing(self.statement, ast.For, ast.While) is None
        sites = self.program.resolver.call_sites(function) if function is not None and depth else []
        outside = [(m, call) for m, call in sites if m.enclosing_function(call) is not function]
        return bool(outside) and all(self._is_before(m, call, depth - 1) for m, call in outside)

    def _check_change(self, owner: Module, node: ast.Attribute, place: str) -> None:
        """A layer beside the part that is put there, or added to what is there."""
        statement = owner.statement(node)
        for call in _calls_around(owner, node):
            if isinstance(call.func, ast.Attribute) and call.func.attr in _ADDING:
                self._stop(f"layers are added to it: {place}")
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        for target in targets:
            if node in set(ast.walk(target)) and isinstance(statement, ast.Assign):
                if isinstance(target, ast.Attribute) and target.attr in _OF_PARAMETERS:
                    continue
                rest = self._beside()
                rest.layer(owner, statement.value)
                self._take(rest)


def _may_give(node: ast.AST, name: str) -> bool:
    """True for what gives an object an attribute of that name, or of any."""
    if isinstance(node, ast.Attribute):
        return node.attr in (name, "add_module", "register_module")
    if isinstance(node, ast.Name):
        return node.id == "setattr" or (node.id == name and isinstance(node.ctx, ast.Store))
    return isinstance(node, ast.FunctionDef) and node.name in (name, "__getattr__")


def _calls_around(module: Module, node: ast.AST) -> Iterator[ast.Call]:
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.stmt):
            return
        if isinstance(ancestor, ast.Call):
            yield ancestor


def _table(func: ast.expr) -> tuple[ast.expr | None, ast.expr | None]:
    """What is looked into, and for what, in `models.__dict__[name]` and `getattr(models, name)`."""
    if isinstance(func, ast.Subscript):
        return func.value, func.slice
    if isinstance(func, ast.Call) and dotted(func.func) == "getattr" and len(func.args) > 1:
        return func.args[0], func.args[1]
    return None, None


def _is_dictionary(func: ast.expr) -> bool:
    """False for the names of a module."""
    owner = func.value if isinstance(func, ast.Subscript) else None
    return owner is not None and not (isinstance(owner, ast.Attribute) and owner.attr == "__dict__")


def _beginnings(module: Module, test: ast.expr, key: str) -> list[str]:
    """`name.startswith("vgg")`, `name == "vgg16"`, `name in ["alexnet", "vgg16"]`."""
    given: ast.expr | None = None
    subject: ast.expr | None = None
    if isinstance(test, ast.Call) and isinstance(test.func, ast.Attribute) and test.func.attr == "startswith":
        subject, given = test.func.value, test.args[0] if len(test.args) == 1 else None
    elif isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq | ast.In):
        subject, given = test.left, test.comparators[0]
    if subject is None or module.segment(subject) != key:
        return []
    parts = given.elts if isinstance(given, ast.Tuple | ast.List | ast.Set) else [given]
    words = [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]
    is_substring = isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.In) and isinstance(given, ast.Constant)
    return words if len(words) == len(parts) and not is_substring else []
