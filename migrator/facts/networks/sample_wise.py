"""Whether a model treats each sample by itself outside of one part of it, so that any share of a batch may go through it.

In: a class of the program and the name of the part.  Out: what speaks against it, with its place.  Only layers and operations that
are known to keep samples apart pass: BatchNorm, reductions over the batch and whatever is not on the lists speak against it.
"""

from __future__ import annotations

import ast

from migrator.facts.networks.sample_wise_names import (
    BATCH_NORM,
    BY_DIMENSION,
    CONTAINERS,
    DIMENSION,
    DROPOUT,
    FUNCTIONS,
    LAYERS,
    OVER_DIMENSION,
    PLAIN,
    REDUCING,
    SAME_SHAPE,
    WEIGHTS,
)
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, argument, has_unpacking, walk
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value


class SampleWise:
    """Follows samples through `forward`; `against` is the first thing that may mix them, `draws` a dropout on the way.

    Kinds of values: `rows` (one per sample), `size` (made of the batch's shape), None (nothing of the batch).
    """

    def __init__(self, program: Program, part: str):
        self.program, self.part = program, part
        self.against, self.draws = "", ""
        self._seen: set[ast.AST] = set()
        self._module: Module = program.entry_module
        self._kinds: dict[str, str | None] = {}
        self._class: tuple[Module, ast.ClassDef] | None = None
        self._reduced = False

    def stop(self, module: Module, node: ast.AST, told: str) -> None:
        if not self.against:
            text = " ".join(module.segment(node).split())
            text = text if len(text) < 60 else f"{text[:57]}..."
            self.against = f"{told}: `{text}`, {module.path}:{module.span(node).line}"

    # ---------------------------------------------------------------- layers
    def of_class(self, module: Module, node: ast.ClassDef) -> None:
        """A class of the program, without its part."""
        if node in self._seen:
            return
        self._seen.add(node)
        forward = self.program.resolver.method(module, node, "forward")
        bases = {base.rpartition(".")[2] for base in self.program.resolver.external_bases(module, node)}
        if forward is None or not isinstance(forward[1], ast.FunctionDef) or bases - {"Module", "object"}:
            self.stop(module, node.bases[0] if node.bases else node, f"how {node.name} computes is not in sight")
            return
        self._class = (module, node)
        names = [a.arg for a in forward[1].args.args][1:]
        self._run(forward[0], forward[1], dict.fromkeys(names, "rows"))

    def layer(self, module: Module, node: ast.AST) -> None:
        """Whatever an expression may be as a layer."""
        for value in self.program.resolver.values(module, node):
            self._layer(module, node, value)

    def _layer(self, module: Module, node: ast.AST, value: Value) -> None:
        found = self.program.resolver.class_of(value)
        if value.kind == "constant":
            return
        if found is not None:
            inner = SampleWise(self.program, "")
            inner._seen = self._seen
            inner.of_class(*found)
            self.against, self.draws = self.against or inner.against, self.draws or inner.draws
        elif value.kind != "call" or not isinstance(value.node, ast.Call) or value.module is None:
            self.stop(module, node, "which layer this is could not be found")
        elif CONTAINERS.match(value.name):
            self._container(value.module, value.node)
        elif BATCH_NORM.search(value.name):
            self.stop(value.module, value.node, "outside it, the statistics of the whole batch are taken")
        elif BY_DIMENSION.match(value.name):
            name, default = ("start_dim", 1) if value.name.endswith("Flatten") else ("dim", None)
            given = argument(value.node, name, 0)
            if (default is None or given is not None) and not self._is_inside(given):
                self.stop(value.module, value.node, "outside it, this layer may go over the batch")
        elif not LAYERS.match(value.name):
            self.stop(value.module, value.node, "whether this layer keeps samples apart is not known")
        elif DROPOUT.search(value.name):
            self.draws = self.draws or value.module.segment(value.node)

    def _container(self, module: Module, call: ast.Call) -> None:
        for given in call.args:
            if isinstance(given, ast.Starred | ast.List | ast.ListComp):
                self.stop(module, given, "which layers these are could not be found")
            else:
                self.layer(module, given)
        if call.keywords:
            self.stop(module, call, "which layers these are could not be found")

    # ---------------------------------------------------------------- statements
    def _run(self, module: Module, function: ast.FunctionDef, kinds: dict[str, str | None]) -> str | None:
        """Read a method with what its parameters are; what it gives back."""
        self._module, self._kinds = module, kinds
        if function.args.vararg is not None or function.args.kwarg is not None or function.decorator_list:
            self.stop(module, function, "what this method is given is not in sight")
        self._read(function.body)
        given = [self._kind(n.value) for n in walk(function) if isinstance(n, ast.Return) and n.value is not None]
        return "rows" if "rows" in given else None

    def _read(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Assign):
            kind = self._kind(node.value)
            for target in node.targets:
                self._bind(node, target, node.value, kind)
        elif isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            kinds = {self._kinds.get(node.target.id), self._kind(node.value)}
            self._kinds[node.target.id] = self._together(node, kinds)
        elif isinstance(node, ast.If) and self._kind(node.test) is None:
            self._branches(node)
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return
        elif isinstance(node, ast.Return):
            if node.value is not None and self._kind(node.value) == "size":
                self.stop(self._module, node, "the size of the batch is given back")
        elif not isinstance(node, ast.Pass):
            self.stop(self._module, node, "what happens to the samples here was not understood")

    def _branches(self, node: ast.If) -> None:
        before = dict(self._kinds)
        self._read(node.body)
        first, self._kinds = self._kinds, before
        self._read(node.orelse)
        for name, kind in first.items():
            self._kinds[name] = self._together(node, {kind, self._kinds.get(name)})

    def _bind(self, node: ast.stmt, target: ast.expr, value: ast.expr, kind: str | None) -> None:
        if isinstance(target, ast.Name):
            self._kinds[target.id] = kind
        elif isinstance(target, ast.Tuple) and all(isinstance(e, ast.Name) for e in target.elts):
            if kind == "rows" and not isinstance(value, ast.Tuple):
                self.stop(self._module, node, "what happens to the samples here was not understood")
            for element in target.elts:
                assert isinstance(element, ast.Name)
                self._kinds[element.id] = kind
        else:
            self.stop(self._module, node, "something is kept beyond the forward pass")

    # ---------------------------------------------------------------- expressions
    def _kind(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Name):
            return self._kinds.get(node.id)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Attribute):
            kind = self._kind(node.value)
            if kind == "rows" and node.attr != "shape":
                self.stop(self._module, node, "what happens to the samples here was not understood")
            return "size" if kind == "rows" else kind
        if isinstance(node, ast.Subscript) and self._kind(node.value) == "rows":
            first = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) else node.slice
            if not (isinstance(first, ast.Slice) and not (first.lower or first.upper or first.step)):
                self.stop(self._module, node, "samples are picked")
            self._reduced = True
            return "rows"
        inner = {self._kind(child) for child in ast.iter_child_nodes(node)}
        plain = isinstance(node, ast.BinOp | ast.UnaryOp | ast.Tuple | ast.List | ast.IfExp) and not (
            isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
        )
        if "rows" in inner and not plain:
            self.stop(self._module, node, "what happens to the samples here was not understood")
        return self._together(node, inner)

    def _together(self, node: ast.AST, kinds: set[str | None]) -> str | None:
        if {"rows", "size"} <= kinds:
            self.stop(self._module, node, "the size of the batch is computed with")
        return "rows" if "rows" in kinds else "size" if "size" in kinds else None

    def _call(self, node: ast.Call) -> str | None:
        func = node.func
        given = [*node.args, *(k.value for k in node.keywords)]
        kinds = {self._kind(a.value if isinstance(a, ast.Starred) else a) for a in given}
        scope = self._module.scope_of.get(node, self._module.scope)
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and func.value.id == scope.self_name:
            return self._own(node, func, kinds)
        receiver = self._kind(func.value) if isinstance(func, ast.Attribute) else None
        if isinstance(func, ast.Attribute) and receiver == "rows":
            return self._method(node, func, kinds)
        if "rows" not in kinds and isinstance(func, ast.Name) and func.id in PLAIN:
            return self._together(node, kinds)
        name = self.program.external(self._module, node)
        if not kinds - {None} and name.startswith("math."):
            return None
        if OVER_DIMENSION.match(name) and "size" not in kinds:
            tail = name.rpartition(".")[2]
            self._over(node, tail, *DIMENSION.get(tail, ("dim", 1)))
        elif not FUNCTIONS.match(name) or "size" in kinds or self._weighs(node, name):
            self.stop(self._module, node, "what happens to the samples here was not understood")
        elif DROPOUT.search(name):
            self.draws = self.draws or self._module.segment(node)
        return "rows" if "rows" in kinds else None

    def _weighs(self, node: ast.Call, name: str) -> bool:
        """True where samples are the weights of a layer."""
        others = [*node.args[1:], *(k.value for k in node.keywords if k.arg != "input")]
        return WEIGHTS.search(name) is not None and any(self._kind(other) == "rows" for other in others)

    def _own(self, node: ast.Call, func: ast.Attribute, kinds: set[str | None]) -> str | None:
        """A layer of the model, its part, or one of its methods."""
        assert self._class is not None
        method = self.program.resolver.method(*self._class, func.attr)
        if method is not None and isinstance(method[1], FunctionNode):
            return self._method_of_model(node, method)
        if "size" in kinds or has_unpacking(node):
            self.stop(self._module, node, "what happens to the samples here was not understood")
        if func.attr != self.part:
            self.layer(self._module, func)
        return "rows" if "rows" in kinds else None

    def _method_of_model(self, node: ast.Call, method: tuple[Module, ast.AST]) -> str | None:
        if method[1] in self._seen or not isinstance(method[1], ast.FunctionDef) or has_unpacking(node):
            self.stop(self._module, node, "what happens to the samples here was not understood")
            return "rows"
        self._seen.add(method[1])
        names = [a.arg for a in method[1].args.args][1:]
        values = {name: argument(node, name, place) for place, name in enumerate(names)}
        kinds = {name: self._kind(value) if value is not None else None for name, value in values.items()}
        kept = self._module, self._kinds
        result = self._run(*method, kinds)  # type: ignore[arg-type]
        self._module, self._kinds = kept
        self._seen.discard(method[1])
        return result

    def _method(self, node: ast.Call, func: ast.Attribute, kinds: set[str | None]) -> str | None:
        """A method of samples."""
        if func.attr in ("size", "dim"):
            return "size" if func.attr == "size" else None
        if func.attr in ("view", "reshape"):
            self._reshaped(node)
        elif func.attr in ("flatten", "softmax", "log_softmax", "unsqueeze", *REDUCING):
            self._over(node, func.attr, "start_dim" if func.attr == "flatten" else "dim", 0)
        elif func.attr in ("permute", "transpose"):
            first = node.args[0] if node.args else None
            ok = isinstance(first, ast.Constant) and (first.value == 0 if func.attr == "permute" else first.value != 0)
            second = node.args[1] if func.attr == "transpose" and len(node.args) > 1 else None
            if not ok or (func.attr == "transpose" and not self._is_inside(second)):
                self.stop(self._module, node, "what happens to the samples here was not understood")
        elif func.attr not in SAME_SHAPE or "size" in kinds:
            self.stop(self._module, node, "what happens to the samples here was not understood")
        return "rows"

    def _reshaped(self, node: ast.Call) -> None:
        """`view(x.size(0), …)` and `view(-1, …)` keep samples apart."""
        sizes = node.args[0].elts if node.args and isinstance(node.args[0], ast.Tuple | ast.List) else node.args
        first = sizes[0] if sizes else None
        text = self._module.segment(first).replace(" ", "") if first is not None else ""
        if text != "-1" and not (first is not None and self._kind(first) == "size" and self._is_number(first)):
            self.stop(self._module, node, "samples may be put together")

    def _is_number(self, node: ast.expr) -> bool:
        """True for the number of samples: `x.size(0)`, `x.shape[0]`, and a name for it."""
        if isinstance(node, ast.Name):
            function = self._module.enclosing_function(node)
            sets = [n for n in walk(function) if isinstance(n, ast.Assign)] if function is not None else []
            for statement in sets:
                for target in statement.targets:
                    if isinstance(target, ast.Name) and target.id == node.id:
                        return self._is_number(statement.value)
                    if isinstance(target, ast.Tuple) and isinstance(target.elts[0], ast.Name):
                        if target.elts[0].id == node.id:
                            return isinstance(statement.value, ast.Call | ast.Attribute)
            return False
        index: ast.AST | None = None
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "size":
            index = argument(node, "dim", 0)
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute):
            index = node.slice
        return isinstance(index, ast.Constant) and index.value == 0

    def _over(self, node: ast.Call, name: str, keyword: str, place: int) -> None:
        """An operation over one dimension, or some, that must not be the batch's."""
        given = argument(node, keyword, place)
        if not self._is_inside(given) and not (name == "normalize" and given is None):
            self.stop(self._module, node, "this may go over the batch")
        self._reduced = self._reduced or name in REDUCING

    def _is_inside(self, given: ast.AST | None) -> bool:
        """True for dimensions other than the first; the last one may be the first where others have gone."""
        if isinstance(given, ast.Tuple | ast.List):
            return bool(given.elts) and all(self._is_inside(element) for element in given.elts)
        if (
            isinstance(given, ast.UnaryOp)
            and isinstance(given.op, ast.USub)
            and isinstance(given.operand, ast.Constant)
        ):
            return given.operand.value == 1 and not self._reduced
        return isinstance(given, ast.Constant) and isinstance(given.value, int) and given.value > 0
