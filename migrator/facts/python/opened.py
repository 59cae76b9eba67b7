"""What a file is opened for: to be written, or only to be read.

In: a module and a call that opens a file, with the node of its mode.  Out: whether something may be written to it.  `r+` allows
writing and asks for none: what becomes of the file says whether there is any.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module

_WRITING_METHODS = frozenset({"write", "writelines", "truncate", "writerow", "writerows"})
_READING = re.compile(
    r"(^|\.)(loads?|safe_load|full_load|read\w*|reader|DictReader|parse|list|loadtxt|genfromtxt|Unpickler)$"
)


def opens_to_write(module: Module, call: ast.Call, mode: ast.expr | None) -> bool:
    """True for a mode that makes, empties or lengthens a file, and for `r+` where something may be written."""
    text = "r" if mode is None else _modes(module, mode, 0)
    return re.search(r"[wax]", text) is not None or ("+" in text and not _is_only_read(module, call))


def _modes(module: Module, mode: ast.AST, depth: int) -> str:
    """Every mode that a file may be opened with, joined: of a variable all that it is set to in sight."""
    if isinstance(mode, ast.Constant):
        return mode.value if isinstance(mode.value, str) else ""
    if isinstance(mode, ast.IfExp):
        return _modes(module, mode.body, depth) + _modes(module, mode.orelse, depth)
    found = module.lookup(mode.id, module.scope_of.get(mode, module.scope)) if isinstance(mode, ast.Name) else None
    values = [b.value for b in found[1] if b.kind in ("assign", "param") and b.value is not None] if found else []
    return "".join(_modes(module, v, depth + 1) for v in values) if depth < 3 else ""


def _is_only_read(module: Module, call: ast.Call) -> bool:
    """True when all that is done with the open file is in sight, and reads it."""
    handle = _handle(module, call)
    if handle is None:
        return _reads(module, call)
    scope = module.scope_of.get(call, module.scope)
    uses = [
        node
        for node in module.nodes
        if isinstance(node, ast.Name)
        and node.id == handle
        and isinstance(node.ctx, ast.Load)
        and module.scope_of.get(node, module.scope) is scope
    ]
    return bool(uses) and all(_reads(module, use) for use in uses)


def _handle(module: Module, call: ast.Call) -> str | None:
    """The name under which the file is open: `with open(p) as f`, `f = open(p)`."""
    parent = module.parents.get(call)
    if isinstance(parent, ast.withitem) and isinstance(parent.optional_vars, ast.Name):
        return parent.optional_vars.id
    if isinstance(parent, ast.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0], ast.Name):
        return parent.targets[0].id
    return None


def _reads(module: Module, node: ast.AST) -> bool:
    """True for `f.read()`, `json.load(f)`, `for line in f`; also for `f.close()` and `f.seek(0)`, which write nothing."""
    parent = module.parents.get(node)
    if isinstance(parent, ast.Attribute):
        return parent.attr not in _WRITING_METHODS and isinstance(module.parents.get(parent), ast.Call)
    if isinstance(parent, ast.Call):
        name = dotted(parent.func) or ""
        return parent.func is not node and _READING.search(name) is not None
    return isinstance(parent, ast.For | ast.comprehension) and parent.iter is node
