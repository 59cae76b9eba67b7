"""A program that already has a branch for several processes takes the converted one.

Such a branch joins a group and wraps the model itself.  The converted program has joined before it gets there, so an option
that it stands behind stays off; one that torchrun's own variables switch on, and a group that is joined in any case, are for
a person.  It is not switched on instead: what such branches leave out (evaluations, the number of the epoch, files that are
written once) would change what the program reports.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.loaders.own_shares import own_shares
from migrator.facts.processes.actors import training_actor
from migrator.facts.processes.launcher_tests import launcher_test


def check(context: Context) -> Iterator[Diagnostic]:
    if context.program.is_joined:
        return
    actor = training_actor(context.program) if context.program.wraps else None
    if actor is not None:
        yield RULE.question(
            actor.at,
            f"{actor.text} trains in a process that Ray starts, which is in no process group: Ray's own way to train on"
            " several GPUs (ray.train) fits here, or training outside of an actor",
        )
    for place in own_shares(context.program):
        yield RULE.question(
            place.at,
            f"`{place.text}` gives each process a part of the data, by a rank that was 0 of 1 before: let it be 0 of 1 here",
        )
    for place in context.program.existing_ddp:
        test = launcher_test(context.program, place) if place.note == "init_process_group" else None
        if test is not None:
            yield RULE.question(
                place.at,
                f"torchrun sets what `{test}` asks for, so that the program's own way to use several processes is taken as"
                " well, and joins twice. Take it out; or start the program as it was with torchrun, where its batch size is"
                " that of each process",
            )
            return
    for place in context.program.existing_ddp:
        tests = context.program.tests_around(place.statement)
        if tests:
            yield RULE.note(
                place.at,
                f"the program's own way to use several processes; it stays behind `{tests[0]}`, which must not hold now",
            )
        elif place.note == "init_process_group":
            yield RULE.question(
                place.at,
                "the program joins a process group here in any case: it would join twice. Remove one of the two",
            )
        else:
            continue
        return


RULE = Rule("MG103", "own-branches", check, __doc__ or "", applicability="display-only", hazards=("H90",))
