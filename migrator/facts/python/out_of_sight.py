"""Training that code does which is not in sight: a module that is found at run time only, a library's loop.

In: the `Code` of a program.  Out: the calls that give an optimizer to such code.  What it does with it cannot be read, but it is no
evaluation.
"""

from __future__ import annotations

import ast
import re
import sys

from migrator.facts.code import Code
from migrator.facts.python.syntax import Module

# They take an optimizer and train nothing with it.
_LEAVE_ALONE = re.compile(
    r"^(torch|apex|accelerate|logging|copy)\.|^transformers\.(get_|optimization)"
    r"|(^|\.)(\w*[Ss]chedul\w*|\w*LR|\w*(Warm|warm)\w*|\w*[Dd]ecay\w*|\w*[Aa]nneal\w*|\w*[Cc]heckpoint\w*|(re)?load\w*|resume\w*|restore\w*|save\w*)$"
)
_BUILT_IN = frozenset(
    {"print", "len", "isinstance", "type", "str", "repr", "id", "getattr", "setattr", "hasattr", "vars", "dict", "list"}
)


def is_optimizer(code: Code, module: Module, call: ast.Call) -> bool:
    """True for a call that makes an optimizer of torch's, or of a class that derives from one."""
    name = code.external(module, call)
    if name.startswith("torch.optim."):
        return name.count(".") == 2 and name.rpartition(".")[2][0].isupper()
    callee = code.resolver.callee(module, call)
    return (
        callee is not None
        and isinstance(callee[1], ast.ClassDef)
        and any(base.startswith("torch.optim.") for base in code.resolver.external_bases(callee[0], callee[1]))
    )


def given_away(code: Code) -> list[tuple[Module, ast.Call]]:
    """Calls of code that is not in sight which are given an optimizer."""
    if not any(is_optimizer(code, module, call) for module, call in code.calls()):
        return []
    return [
        (module, call)
        for module, call in code.calls()
        if _is_out_of_sight(code, module, call)
        and any(_may_be_optimizer(code, module, node) for node in (*call.args, *(k.value for k in call.keywords)))
        and not code.is_unreached(module, call)
    ]


def _is_out_of_sight(code: Code, module: Module, call: ast.Call) -> bool:
    name = code.external(module, call)
    return (
        bool(name)
        and name not in _BUILT_IN
        and not _LEAVE_ALONE.search(name)
        and name.partition(".")[0] not in sys.stdlib_module_names  # `partial(step, optimizer)` hands it on
        and not isinstance(call.func, ast.Call)
        and code.resolver.callee(module, call) is None
        and (module.qualified(call.func) or "").partition(".")[0]
        in {n.partition(".")[0] for n in module.imports.values()}
    )


def _may_be_optimizer(code: Code, module: Module, node: ast.expr) -> bool:
    if not isinstance(node, ast.Name | ast.Attribute | ast.Call):
        return False
    return any(
        isinstance(value.node, ast.Call) and value.module is not None and is_optimizer(code, value.module, value.node)
        for value in code.resolver.values(module, node)
    )
