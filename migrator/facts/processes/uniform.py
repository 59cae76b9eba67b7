"""Whether all processes get to a statement alike: nothing may wait there for processes that do not come.

In: a `Program` and a statement.  Out: the reason why some process may pass it by (a test of the file system, of the rank or of
the clock on the way to it, an exception that only one of them catches), or the empty text.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.effects.made_files import asked_about, is_made
from migrator.facts.loaders.downloads import fetching_groups
from migrator.facts.processes.workers import runs_in_workers
from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, dotted
from migrator.facts.python.settled import settled
from migrator.facts.python.syntax import Module, Span
from migrator.facts.steps.dividing import chooses, divides

_FILES = re.compile(
    r"(^|\.)_?(exists|lexists|isfile|isdir|islink|is_file|is_dir|listdir|scandir|walk|glob|iglob|rglob|iterdir|access|getsize"
    r"|getmtime|stat|check_integrity|check_exists|check_sha1|check_md5)$"
)
_RANK = re.compile(r"(?<![a-z])(rank|main_process|master|is_main|is_chief|primary)(?![a-z])", re.IGNORECASE)
_ONE_ONLY = re.compile(
    r"(master|main_?process|main_?rank|rank_?(zero|0))_only|only_(on_)?(master|main|rank)", re.IGNORECASE
)
BY_WORKERS = "workers run it, which cannot wait for other processes"
_FILES_DIFFER = "depends on files"
ON_SOME_RANKS = "it happens on some ranks only"
_PASSES_BY = (ast.Return, ast.Break, ast.Continue)  # who raises ends the program, of all processes
_TURNS = "rank 0 goes through it before the others do"
_DEPTH = 3


def passed_by(program: Program, module: Module, statement: ast.stmt, depth: int = 0) -> str:
    """Why a process may not get to the statement when others do."""
    known = program.answers.get((passed_by, statement, depth))
    if known is None:
        known = program.answers[passed_by, statement, depth] = _passed_by(program, module, statement, depth)
    return known


def _passed_by(program: Program, module: Module, statement: ast.stmt, depth: int) -> str:
    child: ast.AST = statement
    in_turn = _in_turn(program)
    if depth and statement in in_turn:
        return _TURNS
    for ancestor in module.ancestors(statement):
        if ancestor in in_turn:
            return _TURNS
        why = _on_the_way(program, module, ancestor, child)
        if why:
            return why
        if isinstance(ancestor, FunctionNode):
            if any(_ONE_ONLY.search(dotted(d) or "") for d in getattr(ancestor, "decorator_list", ())):
                return ON_SOME_RANKS
            if runs_in_workers(program, module, ancestor):
                return BY_WORKERS
            if depth < _DEPTH:
                for caller, call in program.resolver.call_sites(ancestor):
                    why = passed_by(program, caller, caller.statement(call), depth + 1)
                    if why:
                        return why
            return ""
        child = ancestor
    return ""


def _in_turn(program: Program) -> frozenset[ast.AST]:
    """Statements through which rank 0 goes before the others do (MG510)."""
    return frozenset(statement for _, group in fetching_groups(program) for statement in group)


def in_workers(program: Program, module: Module, node: ast.AST, depth: int = 0) -> bool:
    """True for what nobody runs but workers."""
    function = next((a for a in module.ancestors(node) if isinstance(a, FunctionNode)), None)
    if function is None or runs_in_workers(program, module, function):
        return function is not None
    sites = program.resolver.call_sites(function) if depth < _DEPTH else []
    return bool(sites) and all(in_workers(program, caller, call, depth + 1) for caller, call in sites)


def listings_before(program: Program, module: Module, statement: ast.AST, depth: int = 0) -> list[Span] | None:
    """The lists of files that the loops around a statement go over, which all processes could have from rank 0.

    None where something else may keep a process from getting there, or a loop stands in a function that is called in several.
    """
    found: list[Span] = []
    child = statement
    for ancestor in module.ancestors(statement):
        why = _on_the_way(program, module, ancestor, child)
        if why and isinstance(ancestor, ast.For) and _FILES_DIFFER in why and child is not ancestor.iter:
            found.append(module.span(ancestor.iter))
        elif why:
            return None
        if isinstance(ancestor, FunctionNode):
            if any(_ONE_ONLY.search(dotted(d) or "") for d in getattr(ancestor, "decorator_list", ())):
                return None
            for caller, call in program.resolver.call_sites(ancestor) if depth < _DEPTH else ():
                further = listings_before(program, caller, call, depth + 1)
                if further is None:
                    return None
                found += further
            break
        child = ancestor
    return list(dict.fromkeys(found))


def _on_the_way(program: Program, module: Module, ancestor: ast.AST, child: ast.AST) -> str:
    for name in ("body", "orelse", "finalbody"):
        block = getattr(ancestor, name, None)
        if isinstance(block, list) and child in block:
            for earlier in block[: block.index(child)]:
                if isinstance(earlier, ast.If) and any(isinstance(n, _PASSES_BY) for n in ast.walk(earlier)):
                    why = differs(program, module, earlier.test)
                    if why and not _is_agreed_on(program, module, earlier):
                        return why
    if isinstance(ancestor, ast.If | ast.While | ast.IfExp) and child is not ancestor.test:
        why = differs(program, module, ancestor.test)
        if why and isinstance(ancestor, ast.If) and divides(program, module, ancestor):
            return "" if _is_agreed_on(program, module, ancestor) else why
        return why
    if isinstance(ancestor, ast.For) and child is not ancestor.iter:
        return differs(program, module, ancestor.iter)
    if isinstance(ancestor, ast.Try) and ancestor.handlers and child in ancestor.body:
        return "a process that catches an exception alone would leave the others waiting"
    if isinstance(ancestor, ast.ExceptHandler):
        return "only a process that meets the exception gets here"
    return ""


def _is_agreed_on(program: Program, module: Module, question: ast.If) -> bool:
    """True when the processes go together: rank 0 asks for files that the program makes itself (MG511)."""
    asking = {c: asked_about(program, module, c) for c in ast.walk(question.test) if isinstance(c, ast.Call)}
    own = frozenset(c for c, path in asking.items() if path and is_made(program, module, question, path))
    return not differs(program, module, question.test, agreed=own) and not passed_by(program, module, question, _DEPTH)


def differs(
    program: Program, module: Module, expression: ast.AST, depth: int = 0, agreed: frozenset[ast.AST] = frozenset()
) -> str:
    """Why the expression may have another value in another process; `agreed` are calls about which rank 0 decides."""
    parts = (n for n in ast.walk(expression) if isinstance(n, ast.BoolOp | ast.Compare))
    known = {inner for part in parts if settled(program, module, part) is not None for inner in ast.walk(part)}
    for node in ast.walk(expression):
        if node in known or (isinstance(node, ast.Call) and node in agreed):
            continue
        if isinstance(node, ast.Call):
            name = program.external(module, node) or dotted(node.func) or ""
            if not name and isinstance(node.func, ast.Attribute):
                name = node.func.attr
            if _FILES.search(name):
                return f"whether it happens {_FILES_DIFFER}, which another process may just have changed"
            if _RANK.search(name):
                return ON_SOME_RANKS
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            if _RANK.search(node.id):
                return ON_SOME_RANKS
            if depth < _DEPTH:
                found = module.lookup(node.id, module.scope_of.get(node, module.scope))
                for binding in found[1] if found else ():
                    if binding.kind in ("assign", "item") and binding.value is not None:
                        why = differs(program, module, binding.value, depth + 1)
                        if why:
                            return why
        elif isinstance(node, ast.Attribute) and _RANK.search(node.attr) and node.attr not in program.flags:
            return ON_SOME_RANKS
    return ""


def waits_for_all(program: Program, statement: Span) -> bool:
    """True when every process gets to the statement, so that it may wait there for the others."""
    module = program.module_at(statement)
    node = _statement_at(module, statement)
    return node is not None and not passed_by(program, module, node)


def rank_zero_goes_first(program: Program, statement: Span) -> bool:
    """True when one process already goes through the statement before the others."""
    module = program.module_at(statement)
    node = _statement_at(module, statement)
    around = [a for a in module.ancestors(node) if isinstance(a, ast.With)] if node is not None else []
    texts = [module.segment(item.context_expr) for block in around for item in block.items]
    return any(word in text for text in texts for word in ("rank_zero_first", "main_process_first"))


def missing_file_test(program: Program, statement: Span) -> Span | None:
    """The outermost `if` around a statement that prepares missing files: rank 0 can go through it first.

    It must be one to which all processes come, that they leave at its end, and in which they do nothing together.
    """
    module = program.module_at(statement)
    node = _statement_at(module, statement)
    if node is None:
        return None
    found: ast.If | None = None
    child: ast.AST = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, FunctionNode):
            break
        if isinstance(ancestor, ast.If) and child is not ancestor.test:
            if _asks_for_missing(program, module, ancestor.test, child in ancestor.orelse):
                found = ancestor
        child = ancestor
    if found is None or passed_by(program, module, found):
        return None
    inside = [n for part in (*found.body, *found.orelse) for n in ast.walk(part)]
    if any(isinstance(n, _PASSES_BY) for n in inside):
        return None
    if any(isinstance(n, ast.Call) and program.is_wrapped(module, n.func) for n in inside):
        return None
    asked = [asked_about(program, module, n) for n in ast.walk(found.test) if isinstance(n, ast.Call)]
    if any(path is not None and chooses(program, module, found, path) for path in asked):
        return None  # the others would find what rank 0 has just made, and take the other branch
    return module.span(found)


def _asks_for_missing(program: Program, module: Module, test: ast.expr, orelse: bool) -> bool:
    """`not os.path.exists(f)`, `os.path.exists(f) == False`, `f not in os.listdir(d)`; in the else branch the opposite."""
    for node in ast.walk(test):
        if _denies(node) and not orelse and "files" in differs(program, module, node, _DEPTH):
            return True
    positive = not any(_denies(n) for n in ast.walk(test))
    return orelse and positive and "files" in differs(program, module, test, _DEPTH)


def _denies(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        against = node.comparators[0]
        falsehood = isinstance(against, ast.Constant) and against.value is False
        return isinstance(node.ops[0], ast.NotIn) or (isinstance(node.ops[0], ast.Eq | ast.Is) and falsehood)
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _statement_at(module: Module, span: Span) -> ast.stmt | None:
    return next(
        (
            n
            for n in module.nodes
            if isinstance(n, ast.stmt) and n.lineno == span.line and module.span(n).start == span.start
        ),
        None,
    )
