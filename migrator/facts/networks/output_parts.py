"""Whether a model gives its outputs as parts, so that `outputs[0]` is the first of them and not the first sample.

In: a call of a wrapped model.  Out: True where every class that it may be gives tuples, dictionaries or objects with fields, as
models of transformers do; False where it may give one tensor, or nothing is known.
"""

from __future__ import annotations

import ast

from migrator.facts.networks.covered import reached
from migrator.facts.networks.forward_passes import Forward, forward_passes
from migrator.facts.program import Program
from migrator.facts.python.made_of import definitions
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module
from migrator.facts.python.values import Value
from migrator.facts.wraps.wrapper_names import DATA_PARALLEL

_DEPTH = 4


def gives_parts(program: Program, module: Module, call: ast.Call, called: ast.expr) -> bool:
    """True when `called`, the wrapped model, gives parts for the arguments of the call."""
    wraps = [value for value in program.resolver.values(module, called) if value.name in DATA_PARALLEL]
    found = [_wrapped(program, value) for value in wraps]
    return (
        bool(found)
        and all(found)
        and all(
            one is True or (isinstance(one, tuple) and _parts(one[0], call, one[1], _DEPTH))
            for made in found
            for one in made
        )
    )


def _wrapped(program: Program, value: Value) -> list[Forward]:
    """The forward passes of what a wrapper was given; True for a library's, False for what is not in sight."""
    module = value.module
    if module is None or not isinstance(value.node, ast.Call) or not value.node.args:
        return []
    return forward_passes(program, module, value.node.args[0])


def _parts(module: Module, call: ast.Call, forward: ast.FunctionDef, depth: int) -> bool:
    returns, goes_on = reached(call, forward)
    return bool(returns) and not goes_on and all(_is_parts(module, r, r.value, depth) for r in returns)


def _is_parts(module: Module, at: ast.stmt, node: ast.expr | None, depth: int) -> bool:
    if isinstance(node, ast.Tuple | ast.List | ast.Dict):
        return True
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, ast.Add) and any(_is_parts(module, at, n, depth) for n in (node.left, node.right))
    if isinstance(node, ast.IfExp):
        return _is_parts(module, at, node.body, depth) and _is_parts(module, at, node.orelse, depth)
    if isinstance(node, ast.Call):  # `SequenceOutput(loss=loss, logits=logits)`, dict(...)
        name = dotted(node.func) or ""
        return name == "dict" or (name.rpartition(".")[2].endswith("Output") and bool(node.keywords))
    if isinstance(node, ast.Name) and depth:
        made = list(definitions(module, at, node.id))
        return bool(made) and all(_is_parts(module, statement, value, depth - 1) for statement, value in made)
    return False
