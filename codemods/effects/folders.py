"""Folders are there before anybody needs them, whoever makes them first.

All processes may make a folder at the same moment; `exist_ok=True` makes that harmless, where a test followed by a
creation fails in the process that comes second.  Where the program itself decides whether the folder may be there already,
rank 0 makes it alone, and the others wait.
"""

import re
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Guard, InsertAfter, Replace, SetArgument
from migrator.facts.effects.forgiven import is_forgiven
from migrator.facts.model import Effect
from migrator.facts.processes.uniform import waits_for_all

# An `exist_ok=False` would fail in all processes but the first.
_EXISTS_OK = re.compile(r"exist_ok\s*=(?!\s*False)")
_CHOSEN = re.compile(r"exist_ok\s*=(?!\s*(True|False)\b)")


def check(context: Context) -> Iterator[Diagnostic]:
    chosen: list[Effect] = []
    for effect in context.program.effects:
        reason = "several processes may get here at the same moment"
        if effect.kind in ("folder", "path_mkdir") and is_forgiven(context.program.module_at(effect.at), effect):
            continue
        if effect.kind in ("folder", "path_mkdir") and _CHOSEN.search(context.program.text(effect.at)):
            chosen.append(effect)
        elif effect.kind == "folder" and effect.name == "os.makedirs":
            if not _EXISTS_OK.search(context.program.text(effect.at)):
                yield RULE.converted(effect.at, reason, SetArgument(effect.at, "exist_ok", "True", 2))
        elif effect.kind == "folder" and effect.path is not None:
            os, imports = context.module(effect.at, "os")
            yield RULE.converted(
                effect.at, reason, *imports, Replace(effect.at, f"{os}.makedirs($0, exist_ok=True)", (effect.path,))
            )
        elif effect.kind == "path_mkdir" and not _EXISTS_OK.search(context.program.text(effect.at)):
            yield RULE.converted(effect.at, reason, SetArgument(effect.at, "exist_ok", "True", 2))
    yield from _alone(context, chosen)


def _alone(context: Context, effects: list[Effect]) -> Iterator[Diagnostic]:
    """Rank 0 makes the folders as the program decides, and the others wait for it; neighbours share a guard."""
    for effect in effects:
        if effect.at != effect.statement or not waits_for_all(context.program, effect.statement):
            yield RULE.note(effect.at, "processes that come second find this folder: they fail unless it may be there")
    able = [e.statement for e in effects if e.at == e.statement and waits_for_all(context.program, e.statement)]
    while able:
        run = [able.pop(0)]
        while able and context.program.module_at(run[-1]).follows(able[0], run[-1]):
            run.append(able.pop(0))
        test, imports = context.is_rank_zero(run[0])
        yield RULE.converted(
            run[0],
            "one process makes the folder, and none goes on before it is there",
            *imports,
            Guard(run[0], tuple(run), test),
            InsertAfter(run[-1], context.barrier(run[0])),
        )


RULE = Rule("MG502", "folders", check, __doc__ or "", hazards=("H93",), keeps=("once",))
