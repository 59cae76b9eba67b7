"""Lists made of sets have one order in all processes.

Python hashes texts with a seed of its own in every process, so that a set of names comes out in another order in each:
processes would number the same classes or speakers differently, and train on different targets.  Rank 0's order is sent to
all; in a sorted list, a length or a sum there is nothing to do.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.randomness.set_order import lists_of_sets


def check(context: Context) -> Iterator[Diagnostic]:
    for place in lists_of_sets(context.program):
        if place.note:
            yield RULE.question(
                place.at,
                f"the order of this set differs between processes ({place.note}): sort it, or start with PYTHONHASHSEED=0",
            )
            continue
        whole = "list($0)" if place.text.startswith(("enumerate", "for ")) else "$0"
        what = place.statement if whole != "$0" else place.at
        yield RULE.converted(
            place.at,
            "each process would put the elements of the set in an order of its own",
            context.helper(place.at, "from_rank_zero"),
            Replace(what, f"from_rank_zero({whole})", (what,)),
        )


RULE = Rule("MG208", "set-order", check, __doc__ or "", hazards=("H104",), keeps=("trajectory",))
