"""Names and seeds that come from the clock, the process id or chance are the same on all processes.

Two processes on both sides of a second would use two folders; seeds from the clock would give each process another order
of the data; a limit on the time would stop some processes before others.  Rank 0's value is sent to all.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.alone import run_by_one
from migrator.facts.uniform import waits_for_all


def check(context: Context) -> Iterator[Diagnostic]:
    alone = run_by_one(context.program)
    for clock in context.program.clocks:
        if clock.into == "log" or any(place.contains(clock.at) for place in alone):
            continue
        if clock.into == "condition" and not waits_for_all(context.program, clock.statement):
            yield RULE.question(
                clock.at,
                f"processes may disagree on a decision by {clock.text}: let rank 0 decide and send its decision to all",
            )
            continue
        reasons = {"seed": "every process must use the same seed", "condition": "every process must decide alike"}
        yield RULE.converted(
            clock.at,
            reasons.get(clock.into, "every process must use the same name"),
            context.helper(clock.at, "from_rank_zero"),
            Replace(clock.at, "from_rank_zero($0)", (clock.at,)),
        )


RULE = Rule("MG504", "same-names", check, __doc__ or "", hazards=("H93", "H104"), keeps=("once",))
