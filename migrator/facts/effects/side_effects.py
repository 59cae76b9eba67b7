"""What a program does to the world outside, and what it reads from it that differs between processes.

In: the `Code` of a program.  Out: `Effect`s and `Clock`s, without those that one process makes alone already.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from migrator.facts.code import Code
from migrator.facts.effects.effects import classify, is_image
from migrator.facts.evaluation.shown_times import is_only_shown
from migrator.facts.model import Clock, Effect
from migrator.facts.processes.converted import is_settled
from migrator.facts.python.syntax import Module
from migrator.facts.randomness.clock_values import clock_of

_PRIVATE = re.compile(r"^(io\.(BytesIO|StringIO)|tempfile\.((Named|Spooled)?Temporary\w+|mkstemp))$")
_DEPTH = 4


def effects(code: Code) -> list[Effect]:
    """Writes, folders, sinks, removals, shell calls, prompts and downloads of the program."""
    found = []
    for module, call in code.calls():
        name = "urllib.request.urlretrieve" if _retrieves(code, module, call) else code.external(module, call)
        effect = classify(module, call, name, _saves_image(code, module, call))
        if effect is None or _is_private(code, module, call, effect):
            continue
        if not (_is_own_method(code, module, call) or is_settled(module, call)):
            found.append(effect)
    return found


def clocks(code: Code) -> list[Clock]:
    """Values of the clock, the process id or the operating system's random numbers, and what they flow into."""
    found = []
    for module, call in code.calls():
        clock = clock_of(module, call, code.external(module, call))
        if clock is None or is_settled(module, call):
            continue
        shown = clock.into == "name" and is_only_shown(code.resolver, module, call)
        found.append(replace(clock, into="log") if shown else clock)
    return found


def _saves_image(code: Code, module: Module, call: ast.Call) -> bool:
    """True for the `save` of a picture that a function of the project has given back."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "save" and call.args):
        return False
    made = code.resolver.values(module, call.func.value)
    return bool(made) and all(v.node is not None and v.module is not None and is_image(v.module, v.node) for v in made)


def _retrieves(code: Code, module: Module, call: ast.Call) -> bool:
    """`opener.retrieve(url, path)` of urllib's old openers."""
    if not (isinstance(call.func, ast.Attribute) and call.func.attr == "retrieve"):
        return False
    return any(value.name.endswith("URLopener") for value in code.resolver.values(module, call.func.value))


def _is_own_method(code: Code, module: Module, call: ast.Call) -> bool:
    """`utils.mkdir(path)`: a function of the project that is only called like a library's method."""
    name = code.external(module, call)
    return name.partition(".")[0] in ("", "self", "cls") and code.resolver.callee(module, call) is not None


def _is_private(code: Code, module: Module, call: ast.Call, effect: Effect) -> bool:
    """True when what is written to is in memory, or a temporary file that every process has for itself."""
    values = (*call.args, *(keyword.value for keyword in call.keywords))
    return any(_is_temporary(code, module, path, 0) for path in values if module.span(path) == effect.path)


def _is_temporary(code: Code, module: Module, node: ast.AST, depth: int) -> bool:
    """True for such a file, its name, a path below such a folder, and a command in which it is named."""
    for inner in ast.walk(node):
        if not isinstance(inner, ast.Name | ast.Call) or (isinstance(inner, ast.Call) and inner is not node):
            continue
        if any(_PRIVATE.match(value.name) for value in code.resolver.values(module, inner)):
            return True
        found = (
            module.lookup(inner.id, module.scope_of.get(inner, module.scope)) if isinstance(inner, ast.Name) else None
        )
        for binding in found[1] if found is not None and depth < _DEPTH and found[0].parent is not None else ():
            if binding.value is not None and binding.kind in ("assign", "item", "with"):
                if isinstance(binding.value, ast.Call) and _PRIVATE.match(code.external(module, binding.value)):
                    return True
                if not isinstance(binding.value, ast.Constant) and _is_temporary(
                    code, module, binding.value, depth + 1
                ):
                    return True
    return False
