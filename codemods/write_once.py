"""Files are written once.

All processes run the program; statements that only write (checkpoints, pictures, tables, copies, removals) are run by
rank 0 alone.  A statement takes no guard when it also draws random numbers, runs the model or sets a name that is read
later: those are reported.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, Guard, InsertAfter
from migrator.facts.once import once_groups

_KINDS = frozenset({"write", "remove", "shell", "open", "download"})


def check(context: Context) -> Iterator[Diagnostic]:
    groups, unguarded = once_groups(context.program, _KINDS)
    for group in groups:
        first = group.statements[0]
        test, imports = context.is_rank_zero(first)
        edits: list[Edit] = [*imports, Guard(first, group.statements, test)]
        reason = "only one process writes"
        if any(effect.kind in ("remove", "shell", "download") for effect in group.effects):
            dist, _ = context.dist(first)
            edits.append(InsertAfter(group.statements[-1], f"{dist}.barrier()\n"))
            reason = "only one process does this, and none goes on before it is done"
        yield RULE.converted(first, reason, *edits)
    for one in unguarded:
        if one.effect.kind == "open":
            continue  # an open file is a sink: see MG503
        if one.effect.kind == "shell":
            yield RULE.note(one.effect.at, f"every process runs this {one.effect.name}: {one.reason}")
            continue
        yield RULE.question(
            one.effect.at, f"every process would run this {one.effect.name}: {one.reason}. Let rank 0 do it alone"
        )


RULE = Rule("MG501", "write-once", check, __doc__ or "", hazards=("H94",))
