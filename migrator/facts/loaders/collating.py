"""Functions of the program's own that put samples together to a batch.

In: the `collate_fn` of a loader.  Out: True where it makes each tensor row by row, one row of each sample, so that the batch of a
share is that share of the batch.  Padding to the longest sample, joining rows and counting samples look at the batch.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted, names_in
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.random_draws import draws_random

_DEFAULT = frozenset(
    f"torch.utils.data.{name}"
    for name in ("default_collate", "dataloader.default_collate", "_utils.collate.default_collate")
)
_ROWS = frozenset(
    ["torch.tensor", "torch.as_tensor", *(f"torch.{kind}Tensor" for kind in ("Float", "Long", "Int", "Double"))]
)


def keeps_rows(program: Program, module: Module, node: ast.expr) -> bool:
    """True for the default, and for functions in sight that stack what each sample has."""
    if program.resolver.external_name(module, node) in _DEFAULT:
        return True
    values = program.resolver.values(module, node)
    return bool(values) and all(
        isinstance(v.node, ast.FunctionDef) and v.module is not None and _Reader(program, v.module, v.node).read()
        for v in values
    )


class _Reader:
    """Follows the list of samples: `items` have one element for each sample, `rows` are tensors with one row for each."""

    def __init__(self, program: Program, module: Module, function: ast.FunctionDef):
        self.program, self.module, self.function = program, module, function
        self.kinds: dict[str, str] = {}

    def read(self) -> bool:
        arguments, function = self.function.args, self.function
        if len(arguments.args) != 1 or arguments.vararg or arguments.kwarg or function.decorator_list:
            return False
        self.kinds[arguments.args[0].arg] = "items"
        body = [s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        if not body or draws_random(self.program, self.module, function):
            return False
        last = body.pop()
        if not all(isinstance(s, ast.Assign) and self._assign(s) for s in body):
            return False
        return isinstance(last, ast.Return) and last.value is not None and self._gives_rows(last.value)

    def _gives_rows(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple | ast.List):
            return all(self._gives_rows(part) for part in node.elts)
        if isinstance(node, ast.Dict):
            return all(self._gives_rows(part) for part in node.values)
        return self._kind(node) == "rows"

    def _assign(self, node: ast.Assign) -> bool:
        target, value = node.targets[0], node.value
        if len(node.targets) > 1:
            return False
        if isinstance(target, ast.Tuple | ast.List):
            if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
                kinds = [self._kind(part) for part in value.elts]
            else:
                kinds = ["items" if self._is_columns(value) else None] * len(target.elts)
            parts = target.elts
        else:
            kinds, parts = [self._kind(value)], [target]
        if None in kinds or not all(isinstance(part, ast.Name) for part in parts):
            return False
        self.kinds |= {
            part.id: kind for part, kind in zip(parts, kinds, strict=True) if isinstance(part, ast.Name) and kind
        }
        return True

    def _is_columns(self, node: ast.expr) -> bool:
        """`zip(*batch)`."""
        starred = node.args[0] if isinstance(node, ast.Call) and dotted(node.func) == "zip" and node.args else None
        return isinstance(starred, ast.Starred) and self._kind(starred.value) == "items"

    def _kind(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Name):
            return self.kinds.get(node.id)
        if isinstance(node, ast.ListComp):
            return self._of_each(node)
        if not isinstance(node, ast.Call) or not node.args or self._kind(node.args[0]) != "items":
            return None
        name = self.program.external(self.module, node)
        others = [*node.args[1:], *(k.value for k in node.keywords)]
        if any(names_in(other) & set(self.kinds) for other in others):
            return None
        if name in _ROWS or (name in _DEFAULT and len(node.args) == 1):
            return "rows"
        dim = argument(node, "dim", 1)
        return "rows" if name == "torch.stack" and (dim is None or getattr(dim, "value", 1) == 0) else None

    def _of_each(self, node: ast.ListComp) -> str | None:
        """`[sample[0] for sample in batch]`: something of each sample, and of no other."""
        only = node.generators[0]
        if len(node.generators) > 1 or only.ifs or self._kind(only.iter) != "items":
            return None
        own = names_in(only.target)
        return "items" if not (names_in(node.elt) - own) & set(self.kinds) else None
