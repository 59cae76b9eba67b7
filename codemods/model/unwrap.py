"""What is reached through the wrapper is reached with and without one.

A prepared model is wrapped over several processes and bare in one: `.module` exists in the first case only.
`accelerator.unwrap_model` gives the network itself in both.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.accelerate.bare import unwrappings


def check(context: Context) -> Iterator[Diagnostic]:
    if not context.accelerate or context.sharing.way not in ("distributed", "batch"):
        return
    for place in unwrappings(context.program):
        unwrap, imports = context.unwrapped(place.at)
        yield RULE.converted(
            place.at,
            "alone, a prepared model has no wrapper",
            *imports,
            Replace(place.at, f"{unwrap}($0){place.rest}", (place.model,)),
        )


RULE = Rule("MG306", "unwrap", check, __doc__ or "", hazards=("H115",), keeps=("alone",), needs=("MG108",))
