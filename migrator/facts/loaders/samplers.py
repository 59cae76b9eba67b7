"""What torch's own samplers do to a loader: `RandomSampler(data)` is `shuffle=True`, `SequentialSampler(data)` is `shuffle=False`.

In: a loader's call.  Out: where such a sampler of the loader's own data set is made; nothing where it may be another one, of other
data, or where more than the loader asks it.  A sampler of a distributed branch that stays off is none.
"""

from __future__ import annotations

import ast

from migrator.facts.loaders.loaders import is_none
from migrator.facts.program import Program
from migrator.facts.python.made_of import definitions
from migrator.facts.python.nodes import argument, dotted, has_unpacking
from migrator.facts.python.settled import stays_off
from migrator.facts.python.syntax import Module, Span
from migrator.facts.python.values import Value

_MODULES = ("torch.utils.data", "torch.utils.data.sampler")


def shuffling(program: Program, module: Module, call: ast.Call) -> Span | None:
    """Where the RandomSampler of a loader is made, with the choice between it and one that stays off."""
    made, given = _own_sampler(program, module, call, "RandomSampler"), argument(call, "sampler", 3)
    if made is None or given is None or not _is_only_for(program, module, given, call):
        return None
    parent = module.parents.get(made)
    chosen = isinstance(parent, ast.IfExp) and made is not parent.test
    other = parent.orelse if isinstance(parent, ast.IfExp) and made is parent.body else getattr(parent, "body", None)
    if chosen and isinstance(other, ast.expr) and stays_off(program, module, other):
        return module.span(parent)  # type: ignore[arg-type]
    return None if chosen else module.span(made)


def keeps_order(program: Program, module: Module, call: ast.Call) -> bool:
    """True for a loader with a SequentialSampler."""
    return _own_sampler(program, module, call, "SequentialSampler") is not None


def is_of_own_branch(program: Program, value: Value) -> bool:
    """A sampler of a distributed branch that is not taken."""
    distributed = value.name.endswith("DistributedSampler") and value.module is not None and value.node is not None
    return distributed and stays_off(program, value.module, value.node)  # type: ignore[arg-type]


def is_always_none(program: Program, module: Module, node: ast.expr) -> bool:
    """`None`, or a name that is never anything else (`train_sampler = None` of an old template)."""
    values = [v for v in program.resolver.values(module, node) if not is_of_own_branch(program, v)]
    return is_none(node) or (bool(values) and all(v.kind == "constant" and is_none(v.node) for v in values))


def _own_sampler(program: Program, module: Module, call: ast.Call, name: str) -> ast.Call | None:
    given, data = argument(call, "sampler", 3), argument(call, "dataset", 0)
    if given is None or data is None or dotted(data) is None or argument(call, "shuffle", 2) is not None:
        return None
    here = [v for _, v in definitions(module, module.statement(call), given.id)] if isinstance(given, ast.Name) else []
    found = [v for one in here or [given] for v in program.resolver.values(module, one)]
    values = [v for v in found if not is_of_own_branch(program, v)]
    made = values[0].node if len(values) == 1 and values[0].kind == "call" and values[0].module is module else None
    if not isinstance(made, ast.Call) or values[0].name not in {f"{owner}.{name}" for owner in _MODULES}:
        return None
    source = argument(made, "data_source", 0)
    if has_unpacking(made) or len(made.args) + len(made.keywords) != 1 or source is None:
        return None
    same = dotted(source) == dotted(data) and module.scope_of.get(source) is module.scope_of.get(data)
    return made if same and not _changes(module, source, data) else None


def _changes(module: Module, source: ast.expr, data: ast.expr) -> bool:
    """True where the name of the data set gets another value between the sampler and the loader."""
    start, end = sorted((module.span(source).start, module.span(data).start))
    return any(
        isinstance(n, ast.Name | ast.Attribute)
        and isinstance(n.ctx, ast.Store)
        and dotted(n) == dotted(data)
        and start < module.span(n).start < end
        for n in module.nodes
    )


def _is_only_for(program: Program, module: Module, given: ast.expr, call: ast.Call) -> bool:
    """True when nothing but the loader reads the sampler's name, a branch that stays off apart."""
    name = dotted(given)
    if name is None:
        return isinstance(given, ast.Call)
    scope = module.scope_of.get(given)
    return all(
        module.span(call).contains(module.span(node)) or stays_off(program, module, node)
        for node in module.nodes
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load) and dotted(node) == name
        if module.scope_of.get(node) is scope
    )
