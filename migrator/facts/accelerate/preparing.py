"""Where the trained model, its optimizers and the training loader can all be handed over at once.

In: a `Program` and its `Training`.  Out: a `Preparation`: the statement behind which `accelerator.prepare` can stand, and the
names that it takes there.  A name that has already gone somewhere else by then (an object that keeps it) is listed apart: it
is prepared right behind its own statement.  None when model and loader never meet in one function.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted
from migrator.facts.python.scopes import Scope
from migrator.facts.python.syntax import Module, Span
from migrator.facts.python.values import Value
from migrator.facts.training.training import Training

# What may be done with a name between its statement and `prepare`: nothing of it keeps the object itself.
_HARMLESS_ATTRIBUTES = frozenset(
    [
        *("parameters", "named_parameters", "modules", "named_modules", "children", "train", "eval", "cuda", "to"),
        *("float", "half", "apply", "requires_grad_", "module", "state_dict", "load_state_dict", "zero_grad"),
        *("param_groups", "add_param_group", "dataset", "sampler", "batch_sampler", "batch_size"),
    ]
)
_HARMLESS_CALLS = re.compile(
    r"(^|[._])(len|print|info|isinstance|hasattr|str|\w*optim\w*|\w*param\w*|\w*sched\w*)$", re.I
)

_LIBRARIES = ("transformers.", "timm.optim", "torch_optimizer", "pytorch_transformers.", "pytorch_pretrained_bert.")


@dataclass(frozen=True, slots=True)
class Named:
    """A name that must be prepared, and the statement (or the `if` around it) that gives it its value."""

    name: str
    kind: str
    statement: Span


@dataclass(frozen=True, slots=True)
class Preparation:
    """`names` are prepared together behind `after`; `early` each behind its own statement.

    `schedulers`: learning rate schedules are made just before, from the optimizer itself.
    """

    after: Span
    names: tuple[Named, ...]
    early: tuple[Named, ...]
    schedulers: bool

    def of_kind(self, kind: str) -> list[Named]:
        return [one for one in (*self.names, *self.early) if one.kind == kind]


def find_preparation(program: Program, training: Training, loaders: bool = True) -> Preparation | None:
    """The first function, beginning with the one that wraps, in which model and loader both get their names.

    `loaders` False: the loaders share out their batches themselves, and only model and optimizers are prepared.
    """
    for module, scope in _scopes(program, training):
        named = [one for one in _named(program, training, module, scope) if loaders or one[1] != "loader"]
        if ({"model", "loader"} if loaders else {"model"}) <= {kind for _, kind, _ in named}:
            return _in_one_block(program, module, named)
    return None


def _scopes(program: Program, training: Training) -> Iterator[tuple[Module, Scope]]:
    seen: set[int] = set()
    places = [wrap.at for wrap in program.wraps] + ([training.epoch_loop] if training.epoch_loop else [])
    for place in places:
        module = program.module_at(place)
        node: ast.AST | None = _node_at(module, place)
        for _ in range(4):
            if node is None:
                break
            scope = module.scope_of.get(node, module.scope)
            if id(scope) not in seen:
                seen.add(id(scope))
                yield module, scope
            sites = program.resolver.call_sites(scope.node) if isinstance(scope.node, FunctionNode) else []
            if len(sites) != 1:
                break
            module, node = sites[0]


def _node_at(module: Module, span: Span) -> ast.AST | None:
    nodes = (n for n in module.nodes if isinstance(n, ast.expr | ast.stmt) and n.lineno == span.line)
    return next((n for n in nodes if module.span(n) == span), None)


def _named(program: Program, training: Training, module: Module, scope: Scope) -> Iterator[tuple[str, str, ast.stmt]]:
    """Names of the scope that are bound to the model's wrap, to an optimizer of it, or to the training loader."""
    loaders = {loader.at for loader in training.loaders}
    models: set[str] = set()
    for node in module.nodes:
        if not isinstance(node, ast.Assign) or module.scope_of.get(node) is not scope:
            continue
        for target, path in _targets(node):
            name = dotted(target)
            if name is None:
                continue
            values = [v for v in program.resolver.unpack(module, node.value, path) if v.kind != "constant"]
            if program.is_wrapped(module, node.value) and not path:
                # another name of one that has its own already, or its move, is none to prepare
                if _unmoved(node.value) not in models and not re.search(r"\.module\b", module.segment(node.value)):
                    yield name, "model", node
                models.add(name)
            elif values and all(_is_at(v, loaders) for v in values):
                yield name, "loader", node
            elif values and all(v.kind == "call" and is_optimizer(v.name) for v in values):
                yield name, "optimizer", node


def _unmoved(value: ast.expr) -> str | None:
    """The name of what an expression gives on, on whichever device."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in ("cuda", "to"):
        return dotted(value.func.value)
    return dotted(value)


def is_optimizer(name: str) -> bool:
    """True for the library name of an optimizer's class."""
    tail = name.rpartition(".")[2]
    return "lr_scheduler" not in name and (
        (name.startswith("torch.optim.") and tail[:1].isupper())
        or (name.startswith(_LIBRARIES) and ("Adam" in tail or "Optim" in tail))
    )


def _targets(statement: ast.Assign) -> Iterator[tuple[ast.expr, tuple[int, ...]]]:
    """The names that a statement binds, each with its place in what is unpacked."""
    for target in statement.targets:
        if isinstance(target, ast.Tuple | ast.List):
            yield from ((element, (place,)) for place, element in enumerate(target.elts))
        else:
            yield target, ()


def _is_at(value: Value, places: set[Span]) -> bool:
    return value.node is not None and value.module is not None and value.module.span(value.node) in places


def _in_one_block(program: Program, module: Module, named: list[tuple[str, str, ast.stmt]]) -> Preparation | None:
    """All names in the innermost block that holds the statements of them all."""
    chains = [[statement, *module.ancestors(statement)] for _, _, statement in named]
    shared = next((a for a in chains[0][1:] if all(a in chain for chain in chains)), None)
    if shared is None:
        return None
    tops = [chain[chain.index(shared) - 1] for chain in chains]
    blocks = [getattr(shared, field, None) for field in ("body", "orelse", "finalbody")]
    block = next((b for b in blocks if isinstance(b, list) and all(top in b for top in tops)), None)
    if block is None:
        return None
    last = max(block.index(top) for top in tops)
    schedulers = False
    while last + 1 < len(block) and _makes_scheduler(program, module, block[last + 1]):
        last, schedulers = last + 1, True
    rows: dict[str, Named] = {}
    for (name, kind, _), top in zip(named, tops, strict=True):
        rows[name] = Named(name, kind, module.span(top))  # the last statement that binds it counts
    order = {"model": 0, "optimizer": 1, "loader": 2}
    ordered = sorted(rows.values(), key=lambda one: order[one.kind])
    after = module.span(block[last])
    late = [one for one in ordered if not kept_before(program, module, one, after)]
    early = [one for one in ordered if one not in late]
    return Preparation(after, tuple(late), tuple(early), schedulers)


def _makes_scheduler(program: Program, module: Module, statement: ast.stmt) -> bool:
    """Statements that do nothing but make learning rate schedules."""
    if isinstance(statement, ast.If):
        return all(_makes_scheduler(program, module, s) for s in (*statement.body, *statement.orelse))
    value = statement.value if isinstance(statement, ast.Assign) else None
    return isinstance(value, ast.Call) and "lr_scheduler." in program.external(module, value)


def kept_before(program: Program, module: Module, one: Named, after: Span) -> bool:
    """True when something keeps the object between its own statement and the place of `prepare`."""
    for node in module.nodes:
        if not isinstance(node, ast.Name | ast.Attribute) or dotted(node) != one.name:
            continue
        span = module.span(node)
        if not (one.statement.end < span.start < after.end) or not isinstance(node.ctx, ast.Load):
            continue
        if any(wrap.at.contains(span) for wrap in program.wraps):  # goes
            continue
        parent = module.parents.get(node)
        if isinstance(parent, ast.Attribute) and (parent.attr in _HARMLESS_ATTRIBUTES or one.kind == "optimizer"):
            continue
        if isinstance(parent, ast.keyword):
            parent = module.parents.get(parent)
        if isinstance(parent, ast.Call) and node is not parent.func:
            name = program.external(module, parent) or dotted(parent.func) or ""
            if _HARMLESS_CALLS.search(name) or "lr_scheduler." in name:
                continue
        if not isinstance(parent, ast.Compare):
            return True
    return False
