"""Values of the clock that are handed to a function of the program's own which only shows them.

In: a `Resolver` and a call that reads the clock.  Out: whether all that becomes of its value stands in lines of a log: it is given,
perhaps by a function that spells it, to a function that is called for what it shows and gives nothing back.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.python.nodes import called_name, dotted
from migrator.facts.python.resolve import Resolver
from migrator.facts.python.syntax import Module

_SHOWS = re.compile(r"(^|_)(log(ging)?|print|info|show|report|message)(_|$|(?=[A-Z]))", re.IGNORECASE)
_SPELLS = re.compile(r"(^|\.)(format|str|strftime|gmtime|localtime|replace|ctime|asctime|isoformat|int|round)$")
_DEPTH = 3


def is_only_shown(resolver: Resolver, module: Module, call: ast.Call, depth: int = 0) -> bool:
    """True when the value goes nowhere but into what is shown."""
    child: ast.AST = call
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, ast.Call) and child is not ancestor.func and _shows(resolver, module, ancestor):
            return True
        if isinstance(ancestor, ast.Call) and child is not ancestor.func and not _SPELLS.search(called_name(ancestor)):
            return False
        if isinstance(ancestor, ast.stmt):
            return _statement_only_shows(resolver, module, ancestor, depth)
        child = ancestor
    return False


def _shows(resolver: Resolver, module: Module, call: ast.Call) -> bool:
    """`print(...)`, or a statement that calls a function of the project with such a name."""
    if dotted(call.func) == "print":
        return True
    alone = isinstance(module.parents.get(call), ast.Expr)
    return alone and _SHOWS.search(called_name(call)) is not None and resolver.callee(module, call) is not None


def _statement_only_shows(resolver: Resolver, module: Module, statement: ast.stmt, depth: int) -> bool:
    if depth == _DEPTH:
        return False
    if isinstance(statement, ast.Return):
        function = next((a for a in module.ancestors(statement) if isinstance(a, ast.FunctionDef)), None)
        sites = resolver.call_sites(function) if function is not None else []
        return bool(sites) and all(is_only_shown(resolver, owner, site, depth + 1) for owner, site in sites)
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    name, scope = statement.targets[0].id, module.scope_of.get(statement)
    if scope is None or scope is module.scope or name in scope.globals:
        return False
    uses = [
        n
        for n in module.nodes
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load) and n.id == name and module.scope_of.get(n) is scope
    ]
    return bool(uses) and all(_use_only_shows(resolver, module, use, depth + 1) for use in uses)


def _use_only_shows(resolver: Resolver, module: Module, use: ast.Name, depth: int) -> bool:
    parent = module.parents.get(use)
    if isinstance(parent, ast.Call) and use in parent.args:
        return _shows(resolver, module, parent)
    return isinstance(parent, ast.Return) and _statement_only_shows(resolver, module, parent, depth)
