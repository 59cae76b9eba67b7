"""Names and seeds that come from the clock, the process id or chance are the same on all processes.

Two processes on both sides of a second would use two folders; seeds from the clock would give each process another order
of the data; a limit on the time would stop some processes before others.  Rank 0's value is sent to all.  A seed that the operating
system gives (`numpy.random.seed()`) is followed by rank 0's random numbers for all; the workers of a loader take torch's seed,
which is theirs alone and alike in the processes.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import InsertAfter, Replace
from migrator.facts.model import Place
from migrator.facts.processes.alone import is_run_by_one, run_by_one
from migrator.facts.processes.uniform import ON_SOME_RANKS, passed_by, waits_for_all
from migrator.facts.randomness.reseeding import reseeded, runs_in_worker

_BATCHES = "the workers of all processes must load the same batches"


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    alone = run_by_one(program)
    for clock in program.clocks:
        if clock.into == "log" or is_run_by_one(program, clock.at, alone):
            continue
        module = program.module_at(clock.at)
        if clock.into == "seed" and runs_in_worker(program, module, module.expression_at(clock.at)):
            if context.sharing.way == "call":
                torch, imports = context.module(clock.at, "torch")
                seed = Replace(clock.at, f"({torch}.initial_seed() % 2**31)")
                yield RULE.converted(clock.at, _BATCHES, *imports, seed)
            continue
        if clock.into == "condition" and not waits_for_all(program, clock.statement):
            yield RULE.question(
                clock.at,
                f"processes may disagree on a decision by {clock.text}: let rank 0 decide and send its decision to all",
            )
            continue
        statement = module.statement_at(clock.statement)
        if clock.into == "name" and statement is not None and passed_by(program, module, statement) == ON_SOME_RANKS:
            yield RULE.question(
                clock.at, f"one process alone may get here for {clock.text}: let rank 0 tell all the name first"
            )
            continue
        reasons = {"seed": "every process must use the same seed", "condition": "every process must decide alike"}
        yield RULE.converted(
            clock.at,
            reasons.get(clock.into, "every process must use the same name"),
            context.helper(clock.at, "from_rank_zero"),
            Replace(clock.at, "from_rank_zero($0)", (clock.at,)),
        )
    if program.is_joined:
        return
    for place in reseeded(program):
        if not is_run_by_one(program, place.at, alone):
            yield from _seeded_alike(context, place)


def _seeded_alike(context: Context, place: Place) -> Iterator[Diagnostic]:
    """What follows a seed of the operating system's; the shares of batches may be drawn from differently."""
    training, whole = context.sharing.training, context.sharing.way == "call"
    inside = training is not None and training.epoch_loop is not None and training.epoch_loop.contains(place.at)
    if not whole and (inside or place.note == "worker"):
        return
    if place.note == "worker":
        function = place.text.partition("(")[0]
        if not function.startswith("torch") and function.endswith(".seed"):
            torch, imports = context.module(place.at, "torch")
            seed = f"{function}({torch}.initial_seed() % 2**32)"
            yield RULE.converted(place.at, _BATCHES, *imports, Replace(place.at, seed))
        else:
            yield RULE.question(place.at, "workers of different processes would load different batches: give it a seed")
    elif waits_for_all(context.program, place.statement):
        share, imports = "share_random_numbers()\n", ()
        if context.accelerate:
            world, imports = context.world_size(place.at)
            share = f"if {world} > 1:\n    {share}"
        helper, after = context.helper(place.at, "share_random_numbers"), InsertAfter(place.statement, share)
        yield RULE.converted(place.at, "every process must draw the same random numbers", *imports, helper, after)
    else:
        yield RULE.question(place.at, "every process would draw other random numbers from here on: give it a seed")


RULE = Rule("MG504", "same-names", check, __doc__ or "", hazards=("H93", "H104"), keeps=("once",))
