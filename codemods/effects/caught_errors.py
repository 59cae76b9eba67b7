"""An error that one process meets alone, and that the program survives, is said to be one.

Where the batch is split at the call, an error in one process's forward pass is raised in all, so that all skip the batch, as
the original did.  An error in its backward pass is its own: it would go on, and the others would wait for its gradients until
their time is up.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.program import Program
from migrator.facts.syntax import FunctionNode, Module, dotted

_OF_ALL = frozenset({"KeyboardInterrupt", "SystemExit", "StopIteration", "EOFError"})
_EXITS = frozenset({"sys.exit", "exit", "quit", "os._exit"})
_DEPTH = 3


def check(context: Context) -> Iterator[Diagnostic]:
    program, seen = context.program, set()
    for module, call in program.calls():
        if not (isinstance(call.func, ast.Attribute) and call.func.attr == "backward"):
            continue
        found = _survived(program, module, call, 0)
        if found is None or found in seen:
            continue
        seen.add(found)
        yield RULE.note(
            found[0].span(found[1]),
            "an error in the backward pass of one process only (out of memory, say) would be survived by that one, and the "
            "others would wait for it until their time is up (--pg-timeout)",
        )


def _survived(program: Program, module: Module, node: ast.AST, depth: int) -> tuple[Module, ast.Try] | None:
    """The `try` in which an error of the node ends, also around the calls of its function."""
    child = node
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.Try) and child in ancestor.body:
            if any(_catches(handler) and not _raises(handler) for handler in ancestor.handlers):
                return module, ancestor
        if isinstance(ancestor, FunctionNode):
            if depth < _DEPTH:
                sites = (_survived(program, m, c, depth + 1) for m, c in program.resolver.call_sites(ancestor))
                return next((site for site in sites if site is not None), None)
            return None
        child = ancestor
    return None


def _catches(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or dotted(kind) not in _OF_ALL for kind in kinds)


def _raises(handler: ast.ExceptHandler) -> bool:
    """True when the handler ends with the error, or with the program."""
    last = handler.body[-1]
    ends = isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) and dotted(last.value.func) in _EXITS
    return (isinstance(last, ast.Raise) or ends) and not any(
        isinstance(n, ast.Return | ast.Continue) for n in ast.walk(handler)
    )


RULE = Rule("MG513", "caught-errors", check, __doc__ or "", applicability="display-only", hazards=("H85",))
