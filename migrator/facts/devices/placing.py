"""Where the program moves what accelerate puts on the device: batches of a prepared loader, and a prepared model.

In: a `Program` and its `Training`.  Out: statements that do nothing but move the loop's own variables or the model, and
expressions that do so in the middle of a line.  A move that also changes the type, or is of something else, is not among them.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from migrator.facts.accelerate.preparing import Named, Preparation, kept_before
from migrator.facts.model import Wrap
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted, names_in
from migrator.facts.python.syntax import Module, Span
from migrator.facts.training.training import Training

_DEVICE = re.compile(r"(\w+\.)*(device|dev)|torch\.device\(.*\)|[\"'](cuda|cpu)(:\d+)?[\"']|(\w+\.)*(local_)?rank|gpu")

_GPU = re.compile(r"[\w.]*(cuda|gpu)\w*|torch\.cuda\.is_available\(\)")


@dataclass(frozen=True, slots=True)
class Move:
    """A whole statement that goes (`kept` None), or an expression of which only `kept` stays."""

    at: Span
    kept: Span | None = None


def needless_moves(program: Program, training: Training) -> Iterator[Move]:
    """Moves of the batches of the training loop, statements first."""
    if training.loop is None:
        return
    module = program.module_at(training.loop)
    loop = next((n for n in module.nodes if isinstance(n, ast.For) and module.span(n) == training.loop), None)
    if loop is None:
        return
    names = {n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)}
    if _is_counted(loop):
        assert isinstance(loop.target, ast.Tuple)
        names -= {n.id for n in ast.walk(loop.target.elts[0]) if isinstance(n, ast.Name)}
    gone: list[ast.AST] = []
    for statement in loop.body:
        moves = _moves_on_a_gpu(module, statement)
        if not all(isinstance(move, ast.Assign) and _moves_only(module, move, names) for move in moves):
            if names & names_in(statement):
                break  # one further down may follow a change of what it moves
            continue
        gone += [statement, *moves]
        yield Move(module.span(statement))
    changed = {
        n.id
        for statement in ast.walk(loop)
        if isinstance(statement, ast.Assign | ast.AugAssign | ast.For)
        and statement not in gone
        and statement is not loop
        for target in (statement.targets if isinstance(statement, ast.Assign) else [statement.target])
        for n in ast.walk(target)
        if isinstance(n, ast.Name)
    }
    for node in ast.walk(loop):
        inside = any(a in gone for a in (node, *module.ancestors(node)))
        kept = None if inside else _moved(module, node) or _moved_all(module, node)
        if isinstance(kept, ast.Name) and kept.id in names - changed:
            yield Move(module.span(node), module.span(kept))


def _moves_on_a_gpu(module: Module, statement: ast.stmt) -> list[ast.stmt]:
    """What stands in `if use_cuda:`, `if torch.cuda.is_available():` and the like without an `else`, or the statement itself."""
    if isinstance(statement, ast.If) and not statement.orelse and _GPU.fullmatch(module.segment(statement.test)):
        return statement.body
    return [statement]


def model_moves(program: Program, found: Preparation) -> Iterator[Move]:
    """Moves of the trained models above `prepare`, where nothing between the two asks where the model is."""
    for one in found.of_kind("model"):
        at = one.statement if one in found.early else found.after
        module = program.module_at(at)
        block = next(module.block(s) for s in module.nodes if isinstance(s, ast.stmt) and module.span(s) == at)
        wrapping = {wrap.statement for wrap in program.wraps}
        for statement in block:
            span = module.span(statement)
            kept = _kept_of_model(module, statement, one.name)
            if kept is None or span.start > at.start or span in wrapping:
                continue
            if not _is_missed(program, module, replace(one, statement=span), at):
                whole = dotted(kept) == one.name
                yield Move(span) if whole else Move(module.span(statement.value), module.span(kept))  # type: ignore[attr-defined]


def unplaced(program: Program, found: Preparation, wrap: Wrap) -> tuple[Span, Span] | None:
    """A wrap with the moves around it, and the model in it without its own: `nn.DataParallel(Net().cuda()).cuda()`."""
    one = next((one for one in found.of_kind("model") if one.name == wrap.target), None)
    module = program.module_at(wrap.at)
    if one is None or wrap.conditional is not None:
        return None
    at = one.statement if one in found.early else found.after
    if _is_missed(program, module, replace(one, statement=wrap.statement), at):
        return None
    inner = module.expression_at(wrap.inner)
    kept = _moved(module, inner) if dotted(inner) is None else None
    return wrap.outer, module.span(kept or inner)


def _is_missed(program: Program, module: Module, one: Named, at: Span) -> bool:
    """True where something between a move and `prepare` needs the model on its device."""
    between = module.text[one.statement.end : at.end]
    return kept_before(program, module, one, at) or re.search(r"parameters\(\)\)\.", between) is not None


def _kept_of_model(module: Module, statement: ast.stmt, name: str) -> ast.expr | None:
    """The model of `model.cuda()`, `model = model.to(device)` and `model = Net().cuda()`."""
    if not isinstance(statement, ast.Assign | ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    kept = _moved(module, statement.value)
    if isinstance(statement, ast.Assign):
        return kept if len(statement.targets) == 1 and dotted(statement.targets[0]) == name else None
    return kept if kept is not None and dotted(kept) == name else None


def _is_counted(loop: ast.For) -> bool:
    name = loop.iter.func if isinstance(loop.iter, ast.Call) else None
    return isinstance(name, ast.Name) and name.id == "enumerate" and isinstance(loop.target, ast.Tuple)


def _moved(module: Module, node: ast.AST) -> ast.expr | None:
    """x of `x.to(device)` and `x.cuda()`."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if any(k.arg not in ("device", "non_blocking") for k in node.keywords):
        return None
    places = [*node.args, *(k.value for k in node.keywords if k.arg == "device")]
    if node.func.attr == "cuda":
        return node.func.value if len(places) <= 1 else None
    if node.func.attr != "to" or len(places) != 1 or not _DEVICE.fullmatch(module.segment(places[0])):
        return None
    return node.func.value


def _moved_all(module: Module, node: ast.AST) -> ast.expr | None:
    """batch of `(t.to(device) for t in batch)` and `{k: v.to(device) for k, v in batch.items()}`."""
    if not isinstance(node, ast.GeneratorExp | ast.ListComp | ast.DictComp) or len(node.generators) != 1:
        return None
    only = node.generators[0]
    if only.ifs:
        return None
    if isinstance(node, ast.DictComp):
        moved, source = _moved(module, node.value), only.iter
        items = isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) and source.func.attr == "items"
        pair = isinstance(only.target, ast.Tuple) and len(only.target.elts) == 2
        if not items or not pair or module.segment(node.key) != module.segment(only.target.elts[0]):  # type: ignore[attr-defined]
            return None
        same = moved is not None and module.segment(moved) == module.segment(only.target.elts[1])  # type: ignore[attr-defined]
        return source.func.value if same else None  # type: ignore[attr-defined]
    moved = _moved(module, node.elt)
    same = moved is not None and module.segment(moved) == module.segment(only.target)
    # What is unpacked or kept as a tuple is the same; a program that changes the list would miss its own copy.
    return only.iter if same and isinstance(node, ast.GeneratorExp) else None


def _moves_only(module: Module, statement: ast.Assign, names: set[str]) -> bool:
    """True for `x = x.to(device)` and `x, y = x.cuda(), y.cuda()` of the loop's own variables."""
    if len(statement.targets) != 1:
        return False
    target, value = statement.targets[0], statement.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        pairs = list(zip(target.elts, value.elts, strict=True))
    else:
        pairs = [(target, value)]
    for one, moved in pairs:
        kept = _moved(module, moved) or _moved_all(module, moved)
        if not isinstance(one, ast.Name) or not isinstance(kept, ast.Name) or kept.id != one.id or one.id not in names:
            return False
    return True
