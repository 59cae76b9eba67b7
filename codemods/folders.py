"""Folders are there before anybody needs them, whoever makes them first.

All processes may make a folder at the same moment; `exist_ok=True` makes that harmless, where a test followed by a
creation fails in the process that comes second.
"""

import re
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace, SetArgument

# An `exist_ok=False` would fail in all processes but the first; anything else is the user's choice.
_EXISTS_OK = re.compile(r"exist_ok\s*=(?!\s*False)")


def check(context: Context) -> Iterator[Diagnostic]:
    for effect in context.program.effects:
        reason = "several processes may get here at the same moment"
        if effect.kind == "folder" and effect.name == "os.makedirs":
            if not _EXISTS_OK.search(context.program.text(effect.at)):
                yield RULE.converted(effect.at, reason, SetArgument(effect.at, "exist_ok", "True", 2))
        elif effect.kind == "folder" and effect.path is not None:
            os, imports = context.module(effect.at, "os")
            yield RULE.converted(
                effect.at, reason, *imports, Replace(effect.at, f"{os}.makedirs($0, exist_ok=True)", (effect.path,))
            )
        elif effect.kind == "path_mkdir" and not _EXISTS_OK.search(context.program.text(effect.at)):
            yield RULE.converted(effect.at, reason, SetArgument(effect.at, "exist_ok", "True", 2))


RULE = Rule("MG502", "folders", check, __doc__ or "", hazards=("H93",))
