"""Nothing reaches into how the wrapper makes its replicas.

Synchronised batch norm for threads replaces the wrapper's `replicate` method, so that the replicas know each other.  Processes have
no such method: the call goes, and what it was for is asked about where the layers are made.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Remove


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    for module, call in program.calls():
        statement = module.statement(call)
        if not isinstance(statement, ast.Expr) or statement.value is not call:
            continue
        if not any(program.is_wrapped(module, argument) for argument in call.args):
            continue
        callee = program.resolver.callee(module, call)
        if callee is not None and _replaces_replicate(callee[1]):
            whole = module.emptied_by(module.span(statement))
            yield RULE.converted(module.span(call), "the wrapper has no replicas to call back any more", Remove(whole))


def _replaces_replicate(function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Attribute) and node.attr == "replicate" and isinstance(node.ctx, ast.Store)
        for node in ast.walk(function)
    )


RULE = Rule("MG324", "replica-callbacks", check, __doc__ or "", hazards=("H30",), keeps=("alone",))
