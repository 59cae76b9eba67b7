"""Processes wait for each other as long as the user says.

A collective call fails after 10 minutes with NCCL and 30 with gloo, which one process's long work before it (a download, a
cache, an evaluation) can exceed.  `--pg-timeout SECONDS` is given to the process group where it is joined.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import AddImport, Edit
from migrator.facts.python.syntax import Span


def check(context: Context) -> Iterator[Diagnostic]:
    seconds, entry = context.options.pg_timeout, context.program.entry
    if not seconds or entry.first is None or context.accelerate:
        return
    if context.program.is_joined:
        yield RULE.question(
            entry.first, f"--pg-timeout {seconds} was not applied: the program joins a group already; give it there"
        )
    else:
        yield RULE.note(entry.first, f"a process waits up to {seconds} seconds for the others before it fails")


def joining(context: Context, at: Span) -> tuple[str, tuple[Edit, ...]]:
    """The call that joins the group, and the import that its time limit needs."""
    seconds = context.options.pg_timeout
    if not seconds:
        return "setup_distributed()\n", ()
    name, needed = context.program.name_for(context.program.module_at(at), "timedelta", "datetime.timedelta")
    if "." in name:
        name, needed = "datetime.timedelta", "import datetime"
    text = f"setup_distributed(timeout={name}(seconds={seconds}))\n"
    return text, (AddImport(at, needed),) if needed else ()


RULE = Rule(
    "MG105",
    "group-timeout",
    check,
    __doc__ or "",
    applicability="display-only",
    hazards=("H88",),
    sources=("https://docs.pytorch.org/docs/stable/distributed.html", "pytorch/pytorch#118369"),
)
