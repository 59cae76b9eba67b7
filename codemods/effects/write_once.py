"""Files are written once.

All processes run the program; statements that only write (checkpoints, pictures, tables, copies, removals) are run by
rank 0 alone.  A statement takes no guard when it also draws random numbers, runs the model or sets a name that is read
later: those are reported.  Where others may read the result, they wait for it, but only at a place to which all processes
come: a test for a file may have another outcome in a process that gets there later.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Edit, Guard, InsertAfter, Replace
from migrator.facts.effects.once import OnceGroup, once_groups
from migrator.facts.loaders.downloads import fetching_groups
from migrator.facts.processes.alone import is_awaited, is_run_by_one, prepared_first, run_by_one
from migrator.facts.processes.turns import fetched_in_turn, fetching_places
from migrator.facts.processes.uniform import BY_WORKERS, missing_file_test, rank_zero_goes_first, waits_for_all
from migrator.facts.python.syntax import Span

_WIDTH = 110
_KINDS = frozenset({"write", "remove", "shell", "open", "download"})
_MADE = frozenset({"write", "download", "remove"})
# What can be written to main memory as well: in the other processes nobody reads it there.
_INTO_MEMORY = frozenset(
    {"torch.save", "torch.jit.save", "numpy.save", "numpy.savez", "numpy.savez_compressed", "numpy.savetxt"}
)


def check(context: Context) -> Iterator[Diagnostic]:
    groups, unguarded = once_groups(context.program, _KINDS)
    fetched = [m.span(s) for m, statements in fetching_groups(context.program) for s in statements]  # see MG510
    groups = [group for group in groups if not any(s.contains(f) for s in group.statements for f in fetched)]
    first_there = {place for _, places in fetching_places(context.program) for place in places}
    for group in groups:
        prepares = prepared_first(context.program, group)
        turns = fetched_in_turn(context.program, group) if prepares is None else None
        if turns is not None:
            yield from (_first(context, place) for place in turns if place not in first_there)
            first_there.update(turns)
        elif prepares is None:
            yield _guarded(context, group)
        elif prepares not in first_there:
            first_there.add(prepares)
            if rank_zero_goes_first(context.program, prepares):
                continue
            yield _first(context, prepares)
    alone = run_by_one(context.program)
    for one in unguarded:
        if one.effect.kind == "open":
            continue  # an open file is a sink: see MG503
        if is_run_by_one(context.program, one.effect.at, [*alone, *first_there]):
            continue
        if one.reason == BY_WORKERS:
            told = (
                f"workers of every process run this {one.effect.name}: let each process have a place of its own for it"
            )
            yield (RULE.question if context.sharing.way == "call" else RULE.note)(one.effect.at, told)
            continue
        if one.effect.kind == "shell":
            yield RULE.note(one.effect.at, f"every process runs this {one.effect.name}: {one.reason}")
            continue
        missing = missing_file_test(context.program, one.effect.statement)
        if missing is not None and one.effect.kind in _MADE:
            if missing not in first_there and not rank_zero_goes_first(context.program, missing):
                yield _first(context, missing)
            first_there.add(missing)
            continue
        if one.effect.name in _INTO_MEMORY and one.effect.path is not None:
            test, imports = context.is_rank_zero(one.effect.at)
            io, more = context.module(one.effect.at, "io")
            yield RULE.converted(
                one.effect.at,
                "all processes compute it together, and one process writes it",
                *imports,
                *more,
                Replace(one.effect.path, f"$0 if {test} else {io}.BytesIO()", (one.effect.path,)),
            )
            continue
        yield RULE.question(
            one.effect.at, f"every process would run this {one.effect.name}: {one.reason}. Let rank 0 do it alone"
        )


def _first(context: Context, place: Span) -> Diagnostic:
    test, edits = context.rank_zero_first(place)
    reason = "one process prepares the files, and the others find them there"
    return RULE.converted(place, reason, *edits, Guard(place, (place,), test, "with"))


def _guarded(context: Context, group: OnceGroup) -> Diagnostic:
    first = group.statements[0]
    test, imports = context.is_rank_zero(first)
    condition = _own_condition(context, group, test)
    if condition is None:
        edits: list[Edit] = [*imports, Guard(first, group.statements, test)]
    else:
        both = f"$0 and ({test})" if " or " in test else f"$0 and {test}"
        edits = [*imports, Replace(condition, both, (condition,))]
    reason = "only one process writes"
    if is_awaited(group) and waits_for_all(context.program, first):
        edits.append(InsertAfter(group.statements[-1], context.barrier(first)))
        reason = "only one process does this, and none goes on before it is done"
    return RULE.converted(first, reason, *edits)


def _own_condition(context: Context, group: OnceGroup, test: str) -> Span | None:
    """The test of the one `if` without `else` that the group is, where a line has room for one more condition."""
    module = context.program.module_at(group.statements[0])
    nodes = [n for n in module.nodes if isinstance(n, ast.If) and module.span(n) == group.statements[0]]
    if len(group.statements) > 1 or not nodes or nodes[0].orelse:
        return None
    line = module.line_text(nodes[0].test.end_lineno or nodes[0].lineno)
    return module.span(nodes[0].test) if len(line.rstrip()) + len(test) < _WIDTH else None


RULE = Rule("MG501", "write-once", check, __doc__ or "", hazards=("H94",), keeps=("once",))
