"""What a model is given beside a batch: what every replica of DataParallel got as it was."""

from __future__ import annotations

import ast
import re

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module


def is_setting(program: Program, module: Module, node: ast.expr) -> bool:
    """True for numbers, words and the like: what DataParallel gave to every replica as it was."""
    if isinstance(node, ast.Constant | ast.Compare | ast.JoinedStr):
        return True
    if isinstance(node, ast.BinOp):
        return is_setting(program, module, node.left) and is_setting(program, module, node.right)
    if isinstance(node, ast.UnaryOp):
        return is_setting(program, module, node.operand)
    if isinstance(node, ast.Call):
        return dotted(node.func) in ("len", "int", "float", "str", "bool", "min", "max", "range")
    name = dotted(node) or ""
    if re.match(r"(self\.)?(args?|opts?|cfg|config|conf|hparams|params|flags|settings)\b", name, re.IGNORECASE):
        return True
    found = module.lookup(name, module.scope_of.get(node, module.scope)) if name else None
    if found is not None and all(b.kind in ("item", "augment") for b in found[1]):
        counters = [dotted(b.value.func) for b in found[1] if isinstance(b.value, ast.Call)]
        return all(c in ("range", "enumerate", "trange") for c in counters) and bool(counters)
    values = program.resolver.values(module, node)
    return bool(values) and all(v.kind in ("constant", "function", "class") for v in values)
