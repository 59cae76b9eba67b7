"""Which conditions around wraps go, because the process group decides now.

In: the wraps of a program.  Out: an `InlinedGuards`, which says so of each wrap.
"""

from __future__ import annotations

import ast
import re
from functools import cached_property

from migrator.facts.code import Code
from migrator.facts.model import GuardFact, Wrap
from migrator.facts.python.nodes import FunctionNode, argument, dotted, names_in
from migrator.facts.python.syntax import Module, Span

# Words of a condition that are no flag of the program.
_LIBRARY_WORD = re.compile(
    r"torch|cuda|is_available|device_count|len|not|and|or|is|None|True|False|self|args|opt\w*|config|cfg|hparams|params"
)


class InlinedGuards:
    """Asks of the guards of wraps whether anything but the wrap depends on them."""

    def __init__(self, code: Code, wraps: list[Wrap]):
        self.code, self.wraps = code, wraps

    def of(self, wrap: Wrap) -> GuardFact | None:
        """The `if` around a wrap that goes, because the process group decides now.

        One whose flag also decides elsewhere what is done with the model (`.module` or not, a mean over replicas) stays, and
        so does one by which callers say that they want the model as it is.
        """
        return next(
            (
                guard
                for guard in wrap.guards
                if guard.parallel
                and guard.exclusive
                and not (self._decides_more(guard) or self._is_up_to_callers(guard))
            ),
            None,
        )

    def all(self) -> list[GuardFact]:
        """Those of all wraps."""
        return [guard for wrap in self.wraps if (guard := self.of(wrap)) is not None]

    def _is_up_to_callers(self, guard: GuardFact) -> bool:
        """True for a parameter of the function that nobody gives in this program, or somebody gives as false."""
        module = self.code.module_at(guard.at)
        node = next(n for n in module.nodes if isinstance(n, ast.If) and module.span(n) == guard.at)
        test = node.test
        found = module.lookup(test.id, module.scope_of.get(test, module.scope)) if isinstance(test, ast.Name) else None
        binding = next((b for b in found[1] if b.kind == "param"), None) if found else None
        if found is None or binding is None or not isinstance(found[0].node, FunctionNode):
            return False
        sites = self.code.resolver.call_sites(found[0].node)
        position = binding.path[0] if binding.path else None
        given = [argument(site, binding.target, position) or binding.value for _, site in sites]
        return not sites or any(isinstance(value, ast.Constant) and not value.value for value in given)

    def _decides_more(self, guard: GuardFact) -> bool:
        names = {name for name in re.findall(r"[A-Za-z_]\w*", guard.test) if not _LIBRARY_WORD.fullmatch(name)}
        names |= self._set_to_true(guard) | ({"device_count"} if "device_count" in guard.test else set())
        return any(
            place != guard.at and not any(place == g.at for w in self.wraps for g in w.guards) and names & flags
            for place, flags in self._flags_of_wrapped
        )

    def _set_to_true(self, guard: GuardFact) -> set[str]:
        """Names that the branch with the wrap sets to a constant: `parallel = True`."""
        return {
            name
            for node in self.code.module_at(guard.at).nodes
            if isinstance(node, ast.Assign)
            and isinstance(node.value, ast.Constant)
            and self.code.module_at(guard.at).span(node) in guard.lines
            for target in node.targets
            for name in names_in(target)
        }

    @cached_property
    def _flags_of_wrapped(self) -> list[tuple[Span, frozenset[str]]]:
        """Conditions that choose between a wrapped and a bare model, or average what replicas gave."""
        found = []
        for module in self.code.modules:
            for node in module.nodes:
                if not isinstance(node, ast.If | ast.IfExp) or self.code.is_other_main(module, node):
                    continue
                parts = [node.body, node.orelse] if isinstance(node, ast.IfExp) else [*node.body, *node.orelse]
                if any(_treats_wrapped(n) for part in parts for n in ast.walk(part)):
                    words = set(re.findall(r"[A-Za-z_]\w*", module.segment(node.test)))
                    words |= {"device_count" for name in words if self._counts_devices(module, node, name)}
                    found.append((module.span(node), frozenset(words)))
        return found

    def _counts_devices(self, module: Module, place: ast.AST, name: str) -> bool:
        """True for a name that holds the number of devices where it is asked for."""
        found = module.lookup(name, module.scope_of.get(place, module.scope))
        values = [b.value for b in found[1] if b.kind == "assign" and b.value is not None] if found else []
        return any("device_count" in module.segment(value) for value in values)


def _treats_wrapped(node: ast.AST) -> bool:
    """`model.module`, `loss.mean()`, `loss.sum()`."""
    if isinstance(node, ast.Attribute) and node.attr == "module":
        return True
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("mean", "sum")
        and not node.args
        and "loss" in (dotted(node.func.value) or "")
    )
