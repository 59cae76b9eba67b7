"""Logs, event files and trackers have one writer.

An object that keeps writing (a summary writer, a tracker, a log file) is real on rank 0 only; the other processes get one
that does nothing, so that every later line stays as it is and is still evaluated by all processes alike.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.effects.held_files import held_by_one, told_by_one, written_by_one
from migrator.edits import Edit, Replace, SetArgument
from migrator.facts.effects.log_folders import log_folders
from migrator.facts.effects.once import once_groups
from migrator.facts.effects.run_modes import run_mode
from migrator.facts.processes.alone import run_by_one
from migrator.facts.processes.uniform import waits_for_all
from migrator.facts.python.syntax import Span

_OBJECTS = ("SummaryWriter", "visdom.Visdom", "tensorboard_logger.Logger")
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
                _disabled_elsewhere(context, effect.at, test),
            )
        elif effect.path is not None and effect.name.startswith("logging."):
            yield RULE.converted(effect.at, "one process writes the log file", *written_by_one(context, effect.path))
    for one in once_groups(context.program, _WRITING)[1]:
        if one.effect.kind != "open":
            continue  # see MG501
        edits_of_file = held_by_one(context, one.effect)
        if edits_of_file is not None:
            yield RULE.converted(one.effect.at, "one process writes the file", *edits_of_file)
        else:
            yield RULE.question(
                one.effect.at, f"every process would write this file: {one.reason}. Let rank 0 do it alone"
            )
    yield from _asked(context)


def _asked(context: Context) -> Iterator[Diagnostic]:
    """The folder of a writer, where not one process alone asks for it."""
    alone = run_by_one(context.program)
    for asked in log_folders(context.program):
        if any(place.contains(asked.at) for place in alone):
            continue
        if waits_for_all(context.program, asked.statement):
            reason = "one process has the writer; all use the folder that it chose"
            yield RULE.converted(asked.at, reason, *told_by_one(context, asked.at))
        else:
            yield RULE.question(asked.at, "one process alone has the writer: let rank 0 tell all the folder first")


def _disabled_elsewhere(context: Context, at: Span, test: str) -> Edit:
    """The program's own mode on rank 0, also where a dictionary of arguments may hold it."""
    own = run_mode(context.program, at)
    if own.unpacked is None:
        return SetArgument(at, "mode", f'{own.mode} if {test} else "disabled"')
    disabled = f'{{**{own.unpacked_text}, "mode": "disabled"}}'
    return Replace(own.unpacked, f"($0 if {test} else {disabled})", (own.unpacked,))


RULE = Rule("MG503", "log-sinks", check, __doc__ or "", hazards=("H91", "H92"), keeps=("once",))
