"""The loop over epochs around the training loop, and the name that the loader has there.

In: a `Reader` and the training loop.  Out: the fields of `Training` about epochs, and obstacles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from migrator.facts.loaders.batch_loops import BatchLoop, draws_in
from migrator.facts.loaders.loaders import counts
from migrator.facts.model import Place
from migrator.facts.python.nodes import FunctionNode, dotted, names_in, walk
from migrator.facts.python.scopes import Scope
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.random_draws import drawn_streams, draws_random, seeded_streams
from migrator.facts.steps.whole_draws import is_drawn_once
from migrator.facts.training.reader import Reader, is_at
from migrator.facts.training.training import Loader

Statements = Sequence[tuple[Module, ast.stmt]]


def read_epochs(reader: Reader, module: Module, loop: BatchLoop) -> None:
    """The loop over epochs around the batch loop, directly or around the one call of its function."""
    current: tuple[Module, ast.AST] = (module, loop)
    for _ in range(4):
        owner, node = current
        for ancestor in owner.ancestors(node):
            if isinstance(ancestor, ast.For | ast.While):
                if not _counts_epochs(reader, owner, ancestor):
                    reader.training.epoch_loop = owner.span(ancestor)
                    reader.order_obstacle(owner, ancestor, "epochs are not counted by a for loop")
                    _check_epoch_draws(reader, owner, ancestor, node)
                    return
                assert isinstance(ancestor, ast.For)
                _epoch_found(reader, owner, ancestor, node)
                return
            if isinstance(ancestor, FunctionNode):
                sites = reader.resolver.call_sites(ancestor)
                if len(sites) != 1:
                    reader.order_obstacle(
                        owner,
                        ancestor,
                        "the function of the training loop is called from several places"
                        if sites
                        else "the call of the training loop could not be found",
                    )
                    return
                current = sites[0]
                break
        else:
            break
    reader.order_obstacle(module, loop, "no loop over epochs was found around the training loop")
    if draws_in(reader.program, module, loop) is not None:
        reader.training.epoch_loop = module.span(loop)  # there are no other turns


def _counts_epochs(reader: Reader, module: Module, loop: ast.For | ast.While) -> bool:
    if not isinstance(loop, ast.For) or _number(loop) is None:
        return False
    given = loop.iter.args[0] if isinstance(loop.target, ast.Tuple) and isinstance(loop.iter, ast.Call) else loop.iter
    return counts(reader.program, module, given)


def _number(loop: ast.For) -> ast.Name | None:
    """The name for the number of the epoch: the loop's own, or the first of `for i, _ in enumerate(...)`."""
    target = loop.target
    call = loop.iter if isinstance(loop.iter, ast.Call) and dotted(loop.iter.func) == "enumerate" else None
    if isinstance(target, ast.Tuple) and len(target.elts) == 2 and call is not None and len(call.args) == 1:
        target = target.elts[0] if not call.keywords else target
    return target if isinstance(target, ast.Name) else None


def _epoch_found(reader: Reader, module: Module, epochs: ast.For, inner: ast.AST) -> None:
    number = _number(epochs)
    assert number is not None
    reader.training.epoch_loop = module.span(epochs)
    reader.training.epoch_first = module.span(epochs.body[0])
    reader.training.epoch_name = number.id
    if number.id.strip("_") == "" and not _is_read(epochs, number.id):
        reader.training.epoch_unnamed = module.span(number)
    if any(
        number.id in names_in(t)
        for n in walk(epochs)
        if isinstance(n, ast.AugAssign | ast.Assign)
        for t in ([n.target] if isinstance(n, ast.AugAssign) else n.targets)
        if isinstance(t, ast.Name)
    ):
        reader.order_obstacle(module, epochs, "the number of the epoch is changed inside its loop")
    _check_epoch_draws(reader, module, epochs, inner)
    if not reader.training.loaders:
        return
    name = _visible_loader(reader, module, epochs, reader.training.loaders)
    if name is None:
        reader.order_obstacle(module, epochs, "the training loader cannot be reached where epochs are counted")
    else:
        reader.training.loader_in_epoch_scope = name


def _is_read(epochs: ast.For, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in walk(epochs))


def _check_epoch_draws(reader: Reader, module: Module, epochs: ast.For | ast.While, inner: ast.AST) -> None:
    """Random numbers that an epoch draws outside its batches: all processes would draw their own."""
    for statement in epochs.body:
        if inner is statement or inner in set(walk(statement)):
            continue
        if draws_random(reader.program, module, statement):
            once = _drawn_once(reader, module, statement)
            reader.training.drawn_once += once
            if not once:
                reader.obstacle(module, statement, "random numbers are drawn between the epochs")
    for owner, statement in _drawn_between_trainings(reader, module, epochs):
        reader.obstacle(owner, statement, "random numbers are drawn between one training and the next")


def _drawn_once(reader: Reader, module: Module, statement: ast.stmt) -> list[Place]:
    """What a statement draws that all processes can have from rank 0; nothing where it draws something else as well."""
    found: list[Place] = []
    for node in walk(statement):
        parts: list[ast.AST] = [node] if isinstance(node, ast.stmt) and not hasattr(node, "body") else []
        parts += [part for name in ("test", "iter", "items") for part in _list(getattr(node, name, ()))]
        drawn = [part for part in parts if draws_random(reader.program, module, part)]
        value = node.value if drawn and isinstance(node, ast.Assign) else None
        if value is not None and is_drawn_once(reader.program, module, value):
            found.append(Place(module.span(value), module.span(node), module.segment(value)))
        elif drawn:
            return []
    return found


def _list(part: object) -> list[ast.AST]:
    return list(part) if isinstance(part, list | tuple) else [part] if isinstance(part, ast.AST) else []


def _drawn_between_trainings(
    reader: Reader, module: Module, node: ast.AST, before: Statements = (), after: Statements = (), depth: int = 4
) -> Iterator[tuple[Module, ast.stmt]]:
    """What draws in the turns of a loop around the epochs (folds, repeated runs), where the processes' streams have parted."""
    inner = node
    for ancestor in module.ancestors(node):
        first, then = _beside(ancestor, inner)
        before, after = [*((module, s) for s in first), *before], [*after, *((module, s) for s in then)]
        if isinstance(ancestor, ast.For | ast.While):
            yield from _drawn_in_turn(reader, before, after)
        if isinstance(ancestor, FunctionNode):
            for caller, site in reader.resolver.call_sites(ancestor) if depth else ():
                yield from _drawn_between_trainings(reader, caller, site, before, after, depth - 1)
            return
        inner = ancestor


def _beside(block: ast.AST, inner: ast.AST) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """What runs before and after a statement in its block; definitions run nothing."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(block, name, ())
        if isinstance(statements, list) and inner in statements:
            at = statements.index(inner)
            runs = [
                [s for s in part if not isinstance(s, ast.FunctionDef | ast.ClassDef)]
                for part in (statements[:at], statements[at:])
            ]
            return runs[0], runs[1][1:]
    return [], []


def _drawn_in_turn(reader: Reader, before: Statements, after: Statements) -> Iterator[tuple[Module, ast.stmt]]:
    """A turn that first seeds a stream begins alike on all processes; behind its training they go on apart."""
    seeded: frozenset[str] = frozenset()
    for module, statement in before:
        seeded |= seeded_streams(reader.program, module, statement)
        if drawn_streams(reader.program, module, statement) - seeded:
            yield module, statement
    for module, statement in after:
        if drawn_streams(reader.program, module, statement):
            yield module, statement


def _visible_loader(reader: Reader, module: Module, epochs: ast.For, loaders: list[Loader]) -> str | None:
    """An expression for the training loader that holds inside the epoch loop."""
    places = {loader.at for loader in loaders}
    scope = module.scope_of.get(epochs, module.scope)
    candidates = [n for n in walk(epochs) if isinstance(n, ast.Name | ast.Attribute) and isinstance(n.ctx, ast.Load)]
    for node in candidates:
        name = dotted(node)
        if name is None or module.scope_of.get(node) is not scope:
            continue
        values = [v for v in reader.resolver.values(module, node) if v.kind != "constant"]
        if values and all(is_at(v, places) for v in values):
            return name
    # A global of a flat script, or an attribute of the trainer, is in sight without being mentioned.
    if len(loaders) == 1 and _is_own_attribute(reader, module, scope, loaders[0]):
        return loaders[0].name
    for loader in loaders:
        if len(loaders) == 1 and loader.at.path == module.path and loader.name.isidentifier():
            found = module.lookup(loader.name, scope)
            if found is not None and found[0] is module.scope and len(found[1]) == 1:
                return loader.name
    return None


def _is_own_attribute(reader: Reader, module: Module, scope: Scope, loader: Loader) -> bool:
    """True when the loader is kept as `self.name`, once, by the class (or a relative) whose method counts epochs."""
    head, _, attribute = loader.name.partition(".")
    if not attribute.isidentifier() or head != scope.self_name or scope.owner_class is None:
        return False
    writes = [w for w in reader.resolver.attribute_writes.get(attribute, ()) if w[2] is not None]
    return len(writes) == 1 and writes[0][0].scope_of[writes[0][1]].owner_class is scope.owner_class
