"""Where a program fetches data sets: calls that say `download=True`, and the fetching functions of known libraries.

In: a `Program`.  Out: the statements that fetch, grouped where they stand together.  Nothing is decided here.
"""

from __future__ import annotations

import ast
from functools import lru_cache

from migrator.facts.program import Program
from migrator.facts.python.syntax import Module

_FETCHES = ("torch.hub.", "torchvision.datasets.utils.download", "gdown.", "nltk.download")
_FIRST = ("rank_zero_first", "main_process_first", "local_main_process_first")


@lru_cache(maxsize=2)
def fetching_groups(program: Program) -> list[tuple[Module, list[ast.stmt]]]:
    """Consecutive statements that fetch, and that no `with rank_zero_first():` holds yet."""
    statements: dict[ast.stmt, Module] = {}
    for module, call in program.calls():
        if _fetches(program.external(module, call), call) and not _is_settled(module, call):
            statements.setdefault(module.statement(call), module)
    groups: list[tuple[Module, list[ast.stmt]]] = []
    while statements:
        first, module = next(iter(statements.items()))
        group = _together(module, first, statements)
        for statement in group:
            del statements[statement]
        groups.append((module, group))
    return groups


def _fetches(name: str, call: ast.Call) -> bool:
    for keyword in call.keywords:
        if keyword.arg == "download" and not (isinstance(keyword.value, ast.Constant) and not keyword.value.value):
            return True
    return name.startswith(_FETCHES) and not name.endswith(("load_state_dict_from_url", "set_dir", "get_dir"))


def _is_settled(module: Module, call: ast.Call) -> bool:
    for ancestor in module.ancestors(call):
        if isinstance(ancestor, ast.With):
            if any(word in module.segment(item.context_expr) for item in ancestor.items for word in _FIRST):
                return True
    return False


def _together(module: Module, first: ast.stmt, statements: dict[ast.stmt, Module]) -> list[ast.stmt]:
    """The statement and those right behind it that fetch too."""
    block = module.block(first)
    group = [first]
    for statement in block[block.index(first) + 1 :]:
        if statement not in statements:
            break
        group.append(statement)
    return group
