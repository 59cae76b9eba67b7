"""A checkpoint is read to main memory, not to the GPU that it was saved from.

Without `map_location`, tensors go back to the GPU whose index is in the file: all processes would put them on the same one.
`load_state_dict` and `.to()` move them to the process's own device afterwards.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import SetArgument
from migrator.facts.loads import unplaced_loads


def check(context: Context) -> Iterator[Diagnostic]:
    for load in unplaced_loads(context.program):
        yield RULE.converted(
            load.at,
            "otherwise every process would load it to the GPU it was saved from",
            SetArgument(load.at, "map_location", '"cpu"', 1),
        )


RULE = Rule("MG602", "load-device", check, __doc__ or "", hazards=("H97",), keeps=("memory",), parallel=False)
