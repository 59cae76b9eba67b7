"""Nothing reaches into how the wrapper makes its replicas.

Synchronised batch norm for threads replaces the wrapper's `replicate` method, so that the replicas know each other.  Processes have
no such method: the call goes, and what it was for is asked about where the layers are made.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Remove
from migrator.facts.wraps.replicas import replica_callbacks


def check(context: Context) -> Iterator[Diagnostic]:
    for at, statement in replica_callbacks(context.program):
        whole = context.program.module_at(at).emptied_by(statement)
        yield RULE.converted(at, "the wrapper has no replicas to call back any more", Remove(whole))


RULE = Rule("MG324", "replica-callbacks", check, __doc__ or "", hazards=("H30",), keeps=("alone",))
