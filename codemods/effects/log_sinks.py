"""Logs, event files and trackers have one writer.

An object that keeps writing (a summary writer, a tracker, a log file) is real on rank 0 only; the other processes get one
that does nothing, so that every later line stays as it is and is still evaluated by all processes alike.
"""

import re
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, Replace, SetArgument
from migrator.facts.once import once_groups

_OBJECTS = ("SummaryWriter", "visdom.Visdom", "tensorboard_logger.Logger")
_READ_AND_WRITTEN = re.compile(r"""["']r[bt]?\+[bt]?["']""")  # an empty file in its place has nothing to read
_WRITING = frozenset({"write", "remove", "shell", "open", "download"})  # a file is opened for what is written to it


def check(context: Context) -> Iterator[Diagnostic]:
    for effect in context.program.effects:
        if effect.kind != "sink":
            continue
        test, imports = context.is_rank_zero(effect.at)
        if effect.name.endswith(_OBJECTS):
            edits: list[Edit] = [
                *imports,
                context.helper(effect.at, "NoWriter"),
                Replace(effect.at, f"$0 if {test} else NoWriter()", (effect.at,)),
            ]
            yield RULE.converted(
                effect.at, "one process writes the log; the others keep the same lines and write nothing", *edits
            )
        elif effect.name == "wandb.init":
            yield RULE.converted(
                effect.at,
                "one process reports the run",
                *imports,
                SetArgument(effect.at, "mode", f'None if {test} else "disabled"'),
            )
        elif effect.path is not None and effect.name.startswith("logging."):
            yield RULE.converted(
                effect.at, "one process writes the log file", *imports, *_only_on_rank_zero(context, effect.path, test)
            )
    for one in once_groups(context.program, _WRITING)[1]:
        if one.effect.kind != "open":
            continue  # see MG501
        if one.effect.path is not None and not _READ_AND_WRITTEN.search(context.program.text(one.effect.at)):
            test, imports = context.is_rank_zero(one.effect.at)
            yield RULE.converted(
                one.effect.at,
                "one process writes the file",
                *imports,
                *_only_on_rank_zero(context, one.effect.path, test),
            )
        else:
            yield RULE.question(
                one.effect.at, f"every process would write this file: {one.reason}. Let rank 0 do it alone"
            )


def _only_on_rank_zero(context: Context, path: object, test: str) -> tuple[Edit, ...]:
    from migrator.facts.syntax import Span

    assert isinstance(path, Span)
    os, imports = context.module(path, "os")
    return (*imports, Replace(path, f"$0 if {test} else {os}.devnull", (path,)))


RULE = Rule("MG503", "log-sinks", check, __doc__ or "", hazards=("H91", "H92"), keeps=("once",))
