"""Which calls wrap a model in DataParallel, and what they give it.

In: the `Code` of a program.  Out: a `WrapCalls`: the live calls of torch's DataParallel, of its function and of subclasses of it.
"""

from __future__ import annotations

import ast
from functools import cached_property

from migrator.facts.code import Code
from migrator.facts.model import Wrap
from migrator.facts.processes.converted import is_helpers
from migrator.facts.python.nodes import argument, called_name
from migrator.facts.python.syntax import Module, Span
from migrator.facts.python.values import Value
from migrator.facts.wraps.wrapper_names import DATA_PARALLEL, FUNCTIONAL


class WrapCalls:
    """The calls that wrap, with what kind of wrapper each of them makes."""

    def __init__(self, code: Code):
        self.code = code

    @cached_property
    def nodes(self) -> dict[ast.AST, tuple[Module, ast.Call, str, str]]:
        """The calls, each with its module, the kind of wrap (class, functional or subclass) and the name of what is called."""
        found: dict[ast.AST, tuple[Module, ast.Call, str, str]] = {}
        for module, call in self.code.calls():
            kind_name = self._kind(module, call)
            if kind_name is not None and not self._is_saved(module, call):
                found[call] = (module, call, *kind_name)
        return found

    def _is_saved(self, module: Module, call: ast.Call) -> bool:
        """True for a wrapper that is made to be written to a file, and runs nothing."""
        outer = next((a for a in module.ancestors(call) if not isinstance(a, ast.Dict | ast.Tuple | ast.List)), None)
        if isinstance(outer, ast.Call) and self.code.external(module, outer) == "torch.save":
            return True
        # `state = {"net": nn.DataParallel(net.module)}`, as MG601 writes it where the dictionary has a name
        bare = len(call.args) == 1 and isinstance(call.args[0], ast.Attribute) and call.args[0].attr == "module"
        return bare and isinstance(module.parents.get(call), ast.Dict)

    def _kind(self, module: Module, call: ast.Call) -> tuple[str, str] | None:
        tail = called_name(call)
        name = self.code.external(module, call)
        if name in DATA_PARALLEL:
            return "class", name
        if name in FUNCTIONAL:
            return "functional", name
        if isinstance(call.func, ast.Name) and "DataParallel" in module.text:
            found = module.lookup(tail, module.scope_of.get(call, module.scope))
            if found is not None and any(
                b.kind == "assign" and module.qualified(b.value) in DATA_PARALLEL for b in found[1] if b.value
            ):
                return "class", "torch.nn.DataParallel"
        if "Parallel" in tail or tail in self._subclasses:
            callee = self.code.resolver.callee(module, call)
            if callee is not None and isinstance(callee[1], ast.ClassDef):
                bases = self.code.resolver.external_bases(callee[0], callee[1])
                if bases & DATA_PARALLEL:
                    return "subclass", callee[1].name
        return None

    @cached_property
    def _subclasses(self) -> frozenset[str]:
        """Names of the project's classes that derive from torch's DataParallel, whatever they are called."""
        return frozenset(
            node.name
            for module, node in self.code.resolver.definitions.values()
            if isinstance(node, ast.ClassDef) and node.bases and not is_helpers(module)
            if self.code.resolver.external_bases(module, node) & DATA_PARALLEL
        )

    def inside(self, module: Module) -> set[ast.AST]:
        """The calls that stand in one module."""
        return {node for node, row in self.nodes.items() if row[0] is module}

    def is_wrapped(self, module: Module, node: ast.AST) -> bool:
        """True when the expression may be a wrapped model."""
        return any(v.node in self.nodes for v in self.code.resolver.values(module, node))

    @property
    def values(self) -> list[Value]:
        """The wrapped models, as the resolver gives them."""
        return [Value("call", call, module, name) for module, call, _, name in self.nodes.values()]

    # ---------------------------------------------------------------- arguments
    def module_position(self, module: Module, call: ast.Call, kind: str) -> int:
        """Where a wrap takes its module: first, or after a subclass's own parameters (`__init__(self, n, *args)`)."""
        callee = self.code.resolver.callee(module, call) if kind == "subclass" else None
        if callee is None or not isinstance(callee[1], ast.ClassDef):
            return 0
        init = self.code.resolver.method(callee[0], callee[1], "__init__")
        if init is None or not isinstance(init[1], ast.FunctionDef):
            return 0
        names = [a.arg for a in (*init[1].args.posonlyargs, *init[1].args.args)][1:]
        if "module" in names:
            return names.index("module")
        return len(names) if init[1].args.vararg is not None else 0

    def functional_call(self, wrap: Wrap) -> tuple[str, tuple[Span, ...]] | None:
        """The arguments of a functional `data_parallel(module, inputs, ...)` call, as text with holes from `$1` on."""
        module, call, _, _ = next(row for node, row in self.nodes.items() if row[0].span(node) == wrap.at)
        found = self.functional_arguments(module, call)
        return found and (found[0], tuple(module.span(part) for part in found[1]))

    def functional_arguments(self, module: Module, call: ast.Call) -> tuple[str, list[ast.expr]] | None:
        """The same with nodes; None where the inputs are not in sight."""
        inputs = argument(call, "inputs", 1)
        if inputs is None:
            return None
        parts: list[tuple[str, ast.expr]] = []
        if isinstance(inputs, ast.Tuple):
            parts += [("*", e.value) if isinstance(e, ast.Starred) else ("", e) for e in inputs.elts]
        elif not (isinstance(inputs, ast.Constant) and inputs.value is None):
            parts.append(("*" if self._is_tuple(module, inputs) else "", inputs))
        named = argument(call, "module_kwargs", 5)
        if named is not None and not (isinstance(named, ast.Constant) and named.value is None):
            parts.append(("**", named))
        text = ", ".join(f"{stars}${place}" for place, (stars, _) in enumerate(parts, 1))
        return text, [part for _, part in parts]

    def _is_tuple(self, module: Module, node: ast.expr) -> bool:
        """True for a tuple in a variable, and for the `args` of `def f(*args)`."""
        if isinstance(node, ast.Name):
            found = module.lookup(node.id, module.scope_of.get(node, module.scope))
            function = found[0].node if found else None
            if isinstance(function, ast.FunctionDef) and function.args.vararg is not None:
                if function.args.vararg.arg == node.id:
                    return True
        return any(isinstance(value.node, ast.Tuple) for value in self.code.resolver.values(module, node))
