"""No name or argument is used that today's libraries have renamed or dropped.

Functions that change their argument end in `_` since torch 0.4, schedulers lost `verbose` in torch 2.7, and numpy 1.24 lost
its aliases of Python's own types.  Each has one successor with the same meaning.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import DropArgument, Replace
from migrator.facts.old.old import live_nodes
from migrator.facts.python.nodes import argument
from migrator.facts.python.syntax import Module

_INITIALISERS = ["uniform", "normal", "constant", "eye", "dirac", "sparse", "orthogonal", "xavier_uniform"]
_INITIALISERS += ["xavier_normal", "kaiming_uniform", "kaiming_normal"]
_FUNCTIONS = {"torch.nn.utils.clip_grad_norm", *(f"torch.nn.init.{name}" for name in _INITIALISERS)}
_TYPES = {f"numpy.{name}": name for name in ("float", "int", "bool", "object", "str", "complex")}


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    for module, call in program.calls():
        name = program.external(module, call)
        if name in _FUNCTIONS:
            yield _renamed(context, module, call.func, name)
        elif name.startswith("torch.optim.lr_scheduler.") and argument(call, "verbose", None) is not None:
            at = module.span(call)
            yield RULE.converted(at, "schedulers have no `verbose` since torch 2.7", DropArgument(at, "verbose"))
    for module, node in live_nodes(program, ast.Attribute, "numpy"):
        own = _TYPES.get(module.qualified(node) or "") if node.attr in _TYPES.values() else None
        if own and not any(own in scope.bindings for scope in module.scopes.values()):
            at = module.span(node)
            yield RULE.converted(at, f"numpy has no `{own}` of its own since 1.24", Replace(at, own))


def _renamed(context: Context, module: Module, func: ast.expr, name: str) -> Diagnostic:
    at = module.span(func)
    reason = "functions that change their argument end in `_`"
    if isinstance(func, ast.Attribute):
        return RULE.converted(at, reason, Replace(at, f"$0.{func.attr}_", (module.span(func.value),)))
    new, imports = context.module(at, f"{name}_")
    return RULE.converted(at, reason, *imports, Replace(at, new))


RULE = Rule(
    "MG009",
    "old-names",
    check,
    __doc__ or "",
    sources=(
        "https://pytorch.org/blog/pytorch-0_4_0-migration-guide/",
        "https://numpy.org/doc/stable/release/1.20.0-notes.html",
    ),
    evaluation=True,
    keeps=("alone",),
    parallel=False,
)
