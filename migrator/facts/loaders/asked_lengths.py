"""What asks the loader of an evaluation for its length or its data set.  Shared out, it would tell those of a share.

In: the loader's call and the loop that reads it.  Out: the first such place, as it is spelled there.
"""

from __future__ import annotations

import ast

from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span
from migrator.facts.training.reader import Reader, in_message, is_at

_ATTRIBUTES = frozenset(["dataset", "sampler", "batch_sampler"])
_BARS = frozenset(["Bar", "progress_bar", "ProgressMeter"])


def asked_length(reader: Reader, made: Span, loop: Span) -> str | None:
    """The text of what would speak of a share: `len(loader)`, `len(loader.dataset)`, `loader.dataset.classes`.

    The number of batches in a message of the loop, or given to a progress bar, goes with the steps of this process.
    """
    for module in reader.program.modules:
        for node in module.nodes:
            asked = _asked(node)
            if asked is None or (isinstance(node, ast.Call) and _counts_own_steps(module, node, loop)):
                continue
            values = reader.resolver.values(module, asked)
            # whatever the length of an unknown object's data set is asked of may be this loader
            hidden = _is_length_of_data(module, node) and all(value.kind == "unknown" for value in values)
            if hidden or any(is_at(value, {made}) for value in values):
                return _spelled(module, node)
    return None


def _asked(node: ast.AST) -> ast.expr | None:
    """What a length or a data set is asked of."""
    if isinstance(node, ast.Attribute) and node.attr in _ATTRIBUTES and isinstance(node.ctx, ast.Load):
        return node.value
    if isinstance(node, ast.Attribute) and node.attr == "__len__":
        return node.value
    if isinstance(node, ast.Call) and dotted(node.func) == "len" and len(node.args) == 1:
        return node.args[0]
    return None


def _is_length_of_data(module: Module, node: ast.AST) -> bool:
    call = module.parents.get(node)
    if not isinstance(node, ast.Attribute) or dotted(node.value) == "self":  # an object with a data set, not a loader
        return False
    return isinstance(call, ast.Call) and dotted(call.func) == "len"


def _counts_own_steps(module: Module, length: ast.Call, loop: Span) -> bool:
    if loop.path == module.path and loop.contains(module.span(length)):
        return in_message(module, length)
    calls = (a for a in module.ancestors(length) if isinstance(a, ast.Call))
    return any((dotted(call.func) or "").rpartition(".")[2] in _BARS for call in calls)


def _spelled(module: Module, node: ast.AST) -> str:
    return module.segment(module.parents[node] if _is_length_of_data(module, node) else node)
