"""The conditions under which a program comes to a place."""

from __future__ import annotations

import ast

from migrator.facts.code import Code
from migrator.facts.python.nodes import FunctionNode
from migrator.facts.python.reach import is_main_guard
from migrator.facts.python.syntax import Module, Span


def tests_around(code: Code, statement: Span) -> list[str]:
    """The tests of all `if`s around a statement, innermost first, also around the calls of its function."""
    module = code.module_at(statement)
    node = module.statement_at(statement)
    return _tests(code, module, node, 0) if node is not None else []


def _tests(code: Code, module: Module, node: ast.AST, depth: int) -> list[str]:
    tests: list[str] = []
    child = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.If) and not is_main_guard(ancestor) and child is not ancestor.test:
            text = " ".join(module.segment(ancestor.test).split())
            tests.append(f"not ({text})" if child in ancestor.orelse else text)
        if isinstance(ancestor, FunctionNode):
            sites = code.resolver.call_sites(ancestor) if depth < 3 else []
            rest = [_tests(code, caller, call, depth + 1) for caller, call in sites]
            return tests + (rest[0] if rest and all(rest) else [])
        child = ancestor
    return tests


def always_runs(code: Code, module: Module, node: ast.AST, depth: int) -> bool:
    """True when the program comes to this place in any case: under no condition, in a function that is called so."""
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.If | ast.Try | ast.For | ast.While | ast.IfExp) and not is_main_guard(ancestor):
            return False
        if isinstance(ancestor, FunctionNode):
            sites = code.resolver.call_sites(ancestor) if depth < 4 else []
            return any(always_runs(code, owner, site, depth + 1) for owner, site in sites)
    return True
