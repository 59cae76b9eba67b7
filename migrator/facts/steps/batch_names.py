"""The names of a step that hold one batch, its parts, and what is made of them row by row.

In: the statements of a step up to the call of its models.  Out: a `BatchNames`: which name is made of which, and all reads of them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.python.nodes import dotted, names_in
from migrator.facts.steps.batch_values import BatchValues
from migrator.facts.steps.row_methods import NO_TENSORS

_OTHER_SIZE = re.compile(r"\.(shape\[[1-9]\d*\]|size\([1-9]\d*\))$")
_IN_COMMON = frozenset(["dtype", "device", "ndim", "dim", "is_cuda", "is_floating_point"])


@dataclass(frozen=True, slots=True)
class Use:
    """One read of a batch's name: the longest chain of attributes and constant subscripts from it, and its statement."""

    name: str
    node: ast.expr
    statement: ast.stmt


class BatchNames:
    """Names with what they are made of; `early` are reads before the models are called."""

    def __init__(self, values: BatchValues):
        self.values, self.module, self.loop = values, values.module, values.loop
        self.sources: dict[str, set[str]] = {name: set() for name in values.targets}
        self.early: list[Use] = []
        self.redefined: dict[str, list[ast.stmt]] = {}
        self.no_tensors: set[str] = set()

    def note(self, statement: ast.stmt) -> None:
        """Which names the rows go to, and reads that are more than handing rows on."""
        for node in ast.walk(statement):
            if not isinstance(node, ast.stmt):
                continue
            given = _plain_values(node)
            if given and all(self.values.kinds.get(target) == "rows" for target in given):
                for target, value in given.items():
                    if any(isinstance(n, ast.Attribute) and n.attr in NO_TENSORS for n in ast.walk(value)):
                        self.no_tensors.add(target)
                    origin = names_in(value) & set(self.sources)
                    self.redefined.setdefault(target, []).append(node)
                    self.sources[target] = self.sources.get(target, set()) | (origin - {target})
            elif not isinstance(node, ast.If | ast.With | ast.For | ast.While):
                self.early += self.uses(node)
            elif isinstance(node, ast.If | ast.While):
                self.early += [u for u in self.uses(node.test)]
            elif isinstance(node, ast.For):
                self.early += self.uses(node.iter)
            elif isinstance(node, ast.With):
                self.early += [u for item in node.items for u in self.uses(item.context_expr)]

    # ---------------------------------------------------------------- uses
    def uses(self, tree: ast.AST) -> list[Use]:
        """The reads in a tree."""
        found = []
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in self.sources:
                found.append(Use(node.id, self._chain(node), self.module.statement(node)))
        return found

    def _chain(self, node: ast.expr) -> ast.expr:
        """`batch["label"]`, `images.shape[0]`, `images.size(0)`: as far as it is one value of the batch."""
        while True:
            parent = self.module.parents.get(node)
            picked = (
                isinstance(parent, ast.Subscript) and parent.value is node and isinstance(parent.slice, ast.Constant)
            )
            if picked or (isinstance(parent, ast.Attribute) and parent.attr == "shape"):
                node = parent  # type: ignore[assignment]
            elif isinstance(parent, ast.Attribute) and parent.attr == "size" and self._is_called(parent):
                node = self.module.parents[parent]  # type: ignore[assignment]
            elif isinstance(parent, ast.Call) and dotted(parent.func) == "len" and parent.args == [node]:
                return parent
            else:
                return node

    def _is_called(self, node: ast.Attribute) -> bool:
        parent = self.module.parents.get(node)
        return isinstance(parent, ast.Call) and parent.func is node

    def asks_size(self, use: Use) -> bool:
        """True for the number of samples, asked of a name that holds one tensor."""
        text = self.module.segment(use.node).replace(" ", "")
        return text.removeprefix(use.name) in (".size(0)", ".shape[0]", ".size()[0]") or text == f"len({use.name})"

    def asks_of_each(self, use: Use) -> bool:
        """True for what the samples of a batch have in common: another dimension than theirs, the type, the device."""
        text, parent = self.module.segment(use.node).replace(" ", ""), self.module.parents.get(use.node)
        return bool(_OTHER_SIZE.search(text)) or (isinstance(parent, ast.Attribute) and parent.attr in _IN_COMMON)

    def is_tensor(self, name: str) -> bool:
        """True for a batch that is moved by a method of its own, or asked for its size."""
        moved = any(_is_moved(_plain_values(definition).get(name)) for definition in self.redefined.get(name, ()))
        return moved or any(self.asks_size(use) for use in self.uses(self.loop) if use.name == name)

    def is_replaced(self, use: Use) -> bool:
        """True where a step behind the call gives the name or one of its parts another value, which is whole already."""
        return any(
            isinstance(n, ast.Name)
            and n.id == use.name
            and (
                isinstance(n.ctx, ast.Store) or isinstance(getattr(self.module.parents.get(n), "ctx", None), ast.Store)
            )
            for statement in self.module.block(use.statement)
            if self.module.span(statement).start >= self.module.span(self.module.statement(use.node)).start
            for n in ast.walk(statement)
        )

    # ---------------------------------------------------------------- what names are made of
    def ancestors(self, names: set[str]) -> set[str]:
        """The names that the model's arguments are made of."""
        found, queue = set[str](), list(names)
        while queue:
            name = queue.pop()
            if name not in found:
                found.add(name)
                queue += self.sources.get(name, ())
        return found

    def roots(self, name: str, given: set[str], seen: frozenset[str] = frozenset()) -> Iterator[str]:
        """The first names behind `name` that the model is not given: once they are whole, what is made of them is."""
        own = self.sources.get(name, set()) - given
        if not own or self.sources[name] & given or name in seen:
            yield name
            return
        for source in own:
            yield from self.roots(source, given, seen | {name})

    def is_outlived(self, name: str, given: set[str]) -> bool:
        """True where what a name, or one behind it, is made of gets a new value, which becomes whole in its place."""
        made = min((self.module.span(d).start for d in self.redefined.get(name, ())), default=0)
        own = self.sources.get(name, set()) - given
        later = (d for source in own for d in self.redefined.get(source, ()))
        return any(self.module.span(d).start >= made for d in later) or any(
            self.is_outlived(source, given) for source in own
        )

    def first_use(self, root: str, statement: ast.stmt) -> ast.stmt:
        """The first statement that needs the whole of a name: not those that only give the name itself a new value."""
        defined = self.redefined.get(root, [])
        start = self.module.span(self.loop).start
        users = [u.statement for u in self.uses(self.loop) if u.name == root]
        users += [d for name, places in self.redefined.items() for d in places if root in self.sources[name]]
        places = [s for s in users if s not in defined and self.module.span(s).start > start]
        last = max((self.module.span(d).start for d in defined), default=start)
        places = [s for s in places if self.module.span(s).start > last]
        return self._in_every_step(min([*places, statement], key=lambda s: self.module.span(s).start), statement)

    def _in_every_step(self, place: ast.stmt, statement: ast.stmt) -> ast.stmt:
        """The statement around a place that every step comes to, as it comes to the call's."""
        outer = {statement, *(a for a in self.module.ancestors(statement) if isinstance(a, ast.stmt))}
        while self.module.parents[place] not in {self.module.parents[s] for s in outer if s in self.module.parents}:
            parent = self.module.parents[place]
            assert isinstance(parent, ast.stmt)  # the loop itself is around the statement too
            place = parent
        return place

    def is_whole_before(self, name: str, places: dict[str, ast.stmt], statement: ast.stmt) -> bool:
        """Make a name whole before a statement that stands above its first use so far, if it has its value by then."""
        start = self.module.span(statement).start
        if any(self.module.span(d).start >= start for d in self.redefined.get(name, ())):
            return False
        if start < self.module.span(places[name]).start:
            places[name] = statement
        return True


def _is_moved(value: ast.expr | None) -> bool:
    """`x.cuda()`, `batch[1].to(device).squeeze()`."""
    while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
        if value.func.attr in ("cuda", "to"):
            return True
        value = value.func.value
    return False


def _plain_values(node: ast.stmt) -> dict[str, ast.expr]:
    """What an assignment to nothing but names gives to each of them; empty for any other statement."""
    if not isinstance(node, ast.Assign):
        return {}
    found: dict[str, ast.expr] = {}
    for target in node.targets:
        elements = target.elts if isinstance(target, ast.Tuple | ast.List) else [target]
        paired = isinstance(node.value, ast.Tuple) and len(node.value.elts) == len(elements) and len(elements) > 1
        for i, element in enumerate(elements):
            if not isinstance(element, ast.Name):
                return {}
            found[element.id] = node.value.elts[i] if paired and isinstance(node.value, ast.Tuple) else node.value
    return found
