"""Values of the clock, the process id or the system's random numbers: what they flow into.

In: a call and its name.  Out: a `Clock`: whether its value decides something, becomes a name or a seed, or is only shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.model import Clock
from migrator.facts.python.nodes import FunctionNode, called_name, dotted
from migrator.facts.python.scopes import Scope
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.drawing_calls import seeds

_CLOCK = re.compile(
    r"^(time\.(time|strftime|asctime|ctime|localtime|time_ns)|datetime\.(datetime\.)?(now|today|utcnow)|datetime\.date\.today"
    r"|os\.getpid|uuid\.uuid[14]|os\.urandom|secrets\.\w+|tempfile\.mk(d?temp)|socket\.gethostname|hash)$"
)
# Calls that spell a time in another way.
_SPELLINGS = ("int", "str", "time.strftime", "time.localtime", "time.asctime", "time.ctime")
# Calls in which a value is only shown, and calls that make a name of it.
_SHOWN = re.compile(
    r"(^|\.)(print|pprint|write|log|info|debug|warn|warning|error|append|cprint|sleep|total_seconds|add_scalar)$"
)
_TRAINS_OR_ENDS = re.compile(
    r"(^|[._])(step|backward|train|fit|eval|evaluate|validate|val|test)\w*$|^(sys\.exit|exit|quit|os\._exit)$"
)
_OUTPUTS = frozenset({"print", "sys.stdout.write", "sys.stderr.write"})
_FORMATS = re.compile(
    r"(^|\.)(print|write|flush|format|join|ljust|rjust|append|items|keys|values|len|str|int|float|abs|max|min|sum|mean|round|floor"
    r"|ceil|log10|range|enumerate|zip|isinstance|time|strftime|sorted)$"
)
_NAMED = re.compile(
    r"(^|\.)(join|Path|open|makedirs|mkdir|mkdirs|SummaryWriter|FileHandler|save|savefig|imwrite|basicConfig|exists|isdir|touch)$"
)
_PATHLIKE = re.compile(
    r"dir|path|name|file|folder|(^|_)(id|exp|run|version|suffix|prefix|stamp|tag)(_|$)", re.IGNORECASE
)


def clock_of(module: Module, call: ast.Call, name: str) -> Clock | None:
    """A call whose value differs between processes, with what the value flows into."""
    if not _CLOCK.match(name):
        return None
    outer = _formatted(module, call)
    measured = outer is call and name in ("time.time", "time.time_ns")  # by far the commonest use is a stop watch
    into = _Flow(module, measured).into(outer)
    if name == "hash" and (into == "name" or all(_is_number(a) for a in call.args)):
        return None  # texts are hashed with a seed of each process's own; what is only stored may serve to look up
    return Clock(module.span(outer), module.span(module.statement(call)), module.segment(outer), into)


def _is_number(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and not isinstance(node.value, str | bytes)


class _Flow:
    """Follows a value of the clock through names and attributes of one module to what it decides."""

    def __init__(self, module: Module, measured: bool):
        self.module, self.measured = module, measured
        self._seen: set[str] = set()

    def into(self, node: ast.AST) -> str:
        """The gravest use: seed before condition before name; `log` when the value is only shown or measured."""
        found = set(self._uses(node, False))
        if self.module.segment(node).endswith("gethostname()"):
            found.discard("condition")  # paths by machine are meant to differ between machines
        return next((use for use in ("seed", "condition", "name") if use in found), "log")

    def _uses(self, node: ast.AST, duration: bool) -> Iterator[str]:
        module = self.module
        child: ast.AST = node
        for ancestor in module.ancestors(node):
            if isinstance(ancestor, ast.stmt):
                yield from self._in_statement(ancestor, child, duration)
                return
            if isinstance(ancestor, ast.BinOp) and isinstance(ancestor.op, ast.Sub):
                duration = True
            elif isinstance(ancestor, ast.Call) and child is not ancestor.func:
                called = module.qualified(ancestor.func) or (
                    ancestor.func.attr if isinstance(ancestor.func, ast.Attribute) else ""
                )
                if seeds(called):
                    yield "seed"
                    return
                if _SHOWN.search(called):
                    return
                if _NAMED.search(called) and not duration:
                    yield "name"
                    return
            elif isinstance(ancestor, ast.keyword) and not duration and _PATHLIKE.search(ancestor.arg or ""):
                yield "name"
                return
            child = ancestor

    def _in_statement(self, statement: ast.stmt, child: ast.AST, duration: bool) -> Iterator[str]:
        if isinstance(statement, ast.If | ast.While):
            if child is statement.test and (isinstance(statement, ast.While) or self._decides(statement)):
                yield "condition"
        elif isinstance(statement, ast.Assign | ast.AnnAssign | ast.AugAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            for target in targets:
                yield from self._in_target(target, duration)
        elif isinstance(statement, ast.For | ast.With | ast.Return | ast.Expr) and not duration and not self.measured:
            yield "name"  # it leaves our sight

    def _in_target(self, target: ast.expr, duration: bool) -> Iterator[str]:
        text = dotted(target)
        if text is None:
            if isinstance(target, ast.Subscript) and not duration and _PATHLIKE.search(self.module.segment(target)):
                yield "name"
            elif isinstance(target, ast.Tuple | ast.List):
                for element in target.elts:
                    yield from self._in_target(element, duration)
            return
        if text in self._seen:
            return
        self._seen.add(text)
        scope = self.module.scope_of.get(target)
        used = False
        for node in self.module.nodes:
            if (
                isinstance(node, ast.Name | ast.Attribute)
                and isinstance(node.ctx, ast.Load)
                and dotted(node) == text
                and ("." in text or self._same_scope(node, text, scope))
            ):
                used = True
                yield from self._uses(node, duration)
        if isinstance(target, ast.Attribute) and not used and not duration and _PATHLIKE.search(target.attr):
            yield "name"  # another module may read it

    def _decides(self, statement: ast.If) -> bool:
        """True when a branch of the `if` leaves a loop, a function or the program, or runs something of the training."""
        for part in [*statement.body, *statement.orelse]:
            for node in ast.walk(part):
                if isinstance(node, ast.Break | ast.Continue | ast.Raise):
                    return True
                if isinstance(node, ast.Return) and not self._only_shows(node):
                    return True
                if isinstance(node, ast.Call) and _TRAINS_OR_ENDS.search(dotted(node.func) or ""):
                    return True
        return False

    def _only_shows(self, leave: ast.Return) -> bool:
        """True when a function that is left has nothing to give back, and all that it calls is known to show or to format.

        So has one that gives back a text in every case: the branches only spell the time in another way.
        """
        function = next((a for a in self.module.ancestors(leave) if isinstance(a, FunctionNode)), None)
        if function is None:
            return False
        if leave.value is not None:
            values = [node.value for node in ast.walk(function) if isinstance(node, ast.Return)]
            return all(value is not None and _is_text(value) for value in values)
        calls = [n for n in ast.walk(function) if isinstance(n, ast.Call)]
        return any(dotted(c.func) in _OUTPUTS for c in calls) and all(_FORMATS.search(called_name(c)) for c in calls)

    def _same_scope(self, node: ast.AST, name: str, scope: Scope | None) -> bool:
        found = self.module.lookup(name, self.module.scope_of.get(node, self.module.scope))
        return found is not None and (found[0] is scope or scope is None or name in scope.globals)


def _formatted(module: Module, call: ast.Call) -> ast.AST:
    """`datetime.now().strftime(...)`, `int(time.time())`: the expression that gives the plain value."""
    node: ast.AST = call
    while True:
        parent = module.parents.get(node)
        grand = module.parents.get(parent) if parent is not None else None
        if isinstance(parent, ast.Attribute) and isinstance(grand, ast.Call) and grand.func is parent:
            node = grand
        elif isinstance(parent, ast.Subscript | ast.Call) and _goes_on(module, parent, node):
            node = parent
        else:
            return node


def _goes_on(module: Module, parent: ast.Subscript | ast.Call, node: ast.AST) -> bool:
    """True when the parent takes a part of the value, or spells it in another way."""
    if isinstance(parent, ast.Subscript):
        return parent.value is node and isinstance(parent.slice, ast.Constant)
    return node in parent.args and (module.qualified(parent.func) or "") in _SPELLINGS


def _is_text(node: ast.expr) -> bool:
    """`"..."`, `f"..."`, `"..." % x`, `"...".format(x)`."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod | ast.Add):
        return _is_text(node.left)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "format":
        return _is_text(node.func.value)
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
