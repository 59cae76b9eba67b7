"""A data set is fetched by one process; the others find it there.

All processes would fetch to the same place at the same moment, and read what another is still writing.  Rank 0 goes first,
then one process of every other machine, then all that are left, each of which finds everything there.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, Guard
from migrator.facts.syntax import Module
from migrator.facts.uniform import waits_for_all

_FETCHES = ("torch.hub.", "torchvision.datasets.utils.download", "gdown.", "nltk.download")
_FIRST = ("rank_zero_first", "main_process_first", "local_main_process_first")


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    statements: dict[ast.stmt, Module] = {}
    for module, call in program.calls():
        if _fetches(program.external(module, call), call) and not _is_settled(module, call):
            statements.setdefault(module.statement(call), module)
    while statements:
        first, module = next(iter(statements.items()))
        group = _together(module, first, statements)
        for statement in group:
            del statements[statement]
        at = module.span(group[0])
        if not waits_for_all(program, at):
            yield RULE.note(at, "processes may fetch this at the same moment: fetch it before the training is started")
            continue
        edits: list[Edit] = []
        if context.accelerate:
            name, imports = context.processes(at)
            edits, test = [*imports], f"{name}.main_process_first()"
        else:
            edits, test = [context.helper(at, "rank_zero_first")], "rank_zero_first()"
        yield RULE.converted(
            at,
            "one process fetches the data, and the others find it there",
            *edits,
            Guard(at, tuple(module.span(s) for s in group), test, "with"),
        )


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


RULE = Rule(
    "MG510",
    "download-first",
    check,
    __doc__ or "",
    hazards=("H20",),
    sources=("pytorch/pytorch#68320", "Lightning-AI/pytorch-lightning#17732"),
)
