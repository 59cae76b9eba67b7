"""Where a program chooses between the GPU and the CPU, in the usual words.

In: a linked program.  Out: the expressions, without those whose device is compared or shown.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span

_CHOICE = re.compile(r'torch\.device\("cuda(:0)?"if(torch\.cuda\.is_available\(\)|\w+)else"cpu"\)')
_IS_THERE = "torch.cuda.is_available"
_SHOWS = frozenset(["print", "str", "info", "format", "debug", "log", "write"])


def device_choices(program: Program) -> Iterator[Span]:
    """`torch.device("cuda" if torch.cuda.is_available() else "cpu")` that the entry gives a name, or so with "cuda:0"."""
    module = program.entry_module
    for node in module.nodes:
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call):
            continue
        text = module.segment(node.value).replace("'", '"').replace(" ", "")
        name = dotted(node.targets[0])
        choice = _CHOICE.fullmatch(text)
        if choice is None or name is None or not (_IS_THERE in text or _is_availability(module, node, choice[2])):
            continue
        if not any(_is_seen(m, name.rpartition(".")[2]) for m in program.modules):
            yield module.span(node.value)


def _is_availability(module: Module, at: ast.AST, name: str) -> bool:
    """True for a name that is `torch.cuda.is_available()` and never anything else."""
    found = module.lookup(name, module.scope_of.get(at, module.scope))
    values = [binding.value for binding in found[1]] if found is not None else []
    return bool(values) and all(isinstance(v, ast.Call) and module.qualified(v.func) == _IS_THERE for v in values)


def _is_seen(module: Module, name: str) -> bool:
    """True when a device of this name is compared, or made into text."""
    for node in module.nodes:
        if (dotted(node) or "").rpartition(".")[2] == name and isinstance(node, ast.Name | ast.Attribute):
            for ancestor in module.ancestors(node):
                if isinstance(ancestor, ast.Compare | ast.JoinedStr | ast.BinOp | ast.Attribute):
                    return True
                if isinstance(ancestor, ast.Call) and (dotted(ancestor.func) or "").rpartition(".")[2] in _SHOWS:
                    return True
                if isinstance(ancestor, ast.stmt):
                    break
    return False
