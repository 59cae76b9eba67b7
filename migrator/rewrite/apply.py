"""Apply planned edits to one module in one libcst pass, and remember which rule made which line.

In: a module's text and labelled edits.  Out: the new text, and for every changed line the rules behind it.  Statements that
no edit names come out byte for byte; no formatter runs.  Raises `EditConflict` when two edits claim one place, or when a
place cannot be found: an edit is applied or reported, never dropped.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import libcst as cst

from migrator.edits import STATEMENT_EDITS, Guard, InsertAfter, InsertBefore, Label, Labelled
from migrator.facts.python.syntax import Span
from migrator.load.source import SourceError
from migrator.rewrite.anchors import Anchors, Lines
from migrator.rewrite.conflicts import EditConflict, is_gone, refuse_conflicts
from migrator.rewrite.folding import Folded, fold
from migrator.rewrite.rewriter import Rewriter, Work


@dataclass(frozen=True, slots=True)
class Rewritten:
    """New text of a module; `before` and `after` map 1-based line numbers to the labels of the edits there."""

    text: str
    before: dict[int, frozenset[Label]]
    after: dict[int, frozenset[Label]]


def apply_edits(text: str, edits: Iterable[Labelled], tree: ast.Module | None = None) -> Rewritten:
    """Rewrite `text`, of which `tree` is the syntax tree where the caller has it.

    Raises `EditConflict`, and `SourceError` for what libcst cannot read.
    """
    labelled = list(dict.fromkeys(edits))
    path = labelled[0].edit.at.path
    try:
        return _apply(text, labelled, tree)
    except cst.ParserSyntaxError as error:
        message = f"cannot be parsed by libcst: {error.message.splitlines()[0]}"
        raise SourceError(path, message, error.raw_line, error.raw_column + 1) from error
    except RecursionError as error:
        raise SourceError(path, "is nested too deeply") from error


def _apply(text: str, labelled: list[Labelled], tree: ast.Module | None) -> Rewritten:
    prefix = text[: len(text) - len(text.lstrip("\f"))]  # which libcst would drop
    text, blank = _without_blank_end(text)
    touched = {place.start for place in _places(labelled)}
    module, kept = _parsed(text, touched, tree, len(prefix))
    anchors = Anchors(module.default_indent, module.default_newline, kept=kept, wanted=touched, position=len(prefix))
    module._codegen(anchors)
    if prefix + "".join(anchors.tokens) != text:
        raise SourceError(labelled[0].edit.at.path, "is read differently by Python and by libcst")
    anchors.on_path.add(id(module))
    rewriter = Rewriter(_work(text, module, labelled, anchors))
    new = cst.ensure_type(module.visit(rewriter), cst.Module)
    for one in labelled:
        if one not in rewriter.applied and not is_gone(one, labelled):
            raise EditConflict(one.edit.at, [one.rule], "the statement there cannot be changed on its own")
    wanted = frozenset(id(node) for _, node in rewriter.made)
    lines = Lines(new.default_indent, new.default_newline, kept=kept, wanted=wanted, bare=rewriter.bare)
    new._codegen(lines)
    after = prefix + "".join(lines.tokens) + blank
    return Rewritten(after, _labels_before(text, labelled, rewriter), _labels_after(rewriter, lines))


def _without_blank_end(text: str) -> tuple[str, str]:
    """The text up to its last line that is not blank, and the rest: libcst loses empty lines before one that holds blanks."""
    end = len(text.rstrip())
    end += 2 if text.startswith("\r\n", end) else int(text.startswith(("\n", "\r"), end))
    return text[:end], text[end:]


def _places(labelled: Sequence[Labelled]) -> list[Span]:
    """Every place that an edit is about."""
    holes = [hole for one in labelled for hole in getattr(one.edit, "holes", ())]
    members = [place for one in labelled if isinstance(one.edit, Guard) for place in one.edit.statements]
    return [*(one.edit.at for one in labelled), *holes, *members]


def _parsed(text: str, touched: set[int], tree: ast.Module | None, prefix: int) -> tuple[cst.Module, dict[str, str]]:
    """The module without what no edit is about, and what the names in there stand for."""
    folded = fold(text, touched, tree)
    module = cst.parse_module(folded.text[prefix:])
    if folded.kept and module.default_indent != folded.indent:  # what is folded decides how the file is indented
        folded = Folded(text)
        module = cst.parse_module(text[prefix:])
    if text.endswith("\r"):  # which libcst does not take for a newline
        module = module.with_changes(has_trailing_newline=True)
    return module, folded.kept


def _work(text: str, module: cst.Module, labelled: list[Labelled], anchors: Anchors) -> Work:
    """The edits by the nodes that they are about; raises `EditConflict` where two of them cannot both be made."""
    expressions: dict[int, list[Labelled]] = defaultdict(list)
    statements: dict[int, list[Labelled]] = defaultdict(list)
    guards: dict[int, Labelled] = {}
    for one in labelled:
        if isinstance(one.edit, Guard):
            for place in one.edit.statements:
                node = _statement_node(anchors, place, one)
                if id(node) in guards:
                    raise EditConflict(one.edit.at, [guards[id(node)].rule, one.rule])
                guards[id(node)] = one
        elif isinstance(one.edit, STATEMENT_EDITS):
            statements[id(_statement_node(anchors, one.edit.at, one))].append(one)
        else:
            expressions[id(_expression_node(anchors, one.edit.at, one))].append(one)
    refuse_conflicts(text, labelled, expressions, statements, guards)
    holes: dict[tuple[int, int], cst.CSTNode] = {}
    for one in labelled:
        for hole in getattr(one.edit, "holes", ()):
            holes[hole.start, hole.end] = _expression_node(anchors, hole, one)
    return Work(module, expressions, statements, guards, holes, anchors.on_path)


def _labels_before(text: str, labelled: Sequence[Labelled], rewriter: Rewriter) -> dict[int, frozenset[Label]]:
    """Which edits changed or took away each line of the text as it was."""
    labels: dict[int, set[Label]] = defaultdict(set)
    for one in labelled:
        if isinstance(one.edit, InsertBefore | InsertAfter) and one not in rewriter.split:
            continue
        places = one.edit.statements if isinstance(one.edit, Guard) else (one.edit.at,)
        last = places[-1]
        for line in range(places[0].line, last.line + _newlines(text[last.start : last.end]) + 1):
            labels[line].add(one.label)
    return _frozen(labels)


def _labels_after(rewriter: Rewriter, lines: Lines) -> dict[int, frozenset[Label]]:
    """Which edits made each line of the new text."""
    labels: dict[int, set[Label]] = defaultdict(set)
    for one, node in rewriter.made:
        if id(node) in lines.spans:
            first, end = lines.spans[id(node)]
            for line in range(first, end + 1):
                labels[line].add(one.label)
    return _frozen(labels)


def _newlines(text: str) -> int:
    return text.count("\n") + text.count("\r") - text.count("\r\n")


def _frozen(rows: dict[int, set[Label]]) -> dict[int, frozenset[Label]]:
    return {line: frozenset(labels) for line, labels in rows.items()}


def _statement_node(anchors: Anchors, at: Span, one: Labelled) -> cst.CSTNode:
    node = anchors.statement(at.start)
    if node is None:
        raise EditConflict(at, [one.rule], "the statement there could not be found")
    return node


def _expression_node(anchors: Anchors, at: Span, one: Labelled) -> cst.CSTNode:
    node = anchors.expression(at.start, at.end)
    if node is None:
        raise EditConflict(at, [one.rule], "the expression there could not be found")
    return node
