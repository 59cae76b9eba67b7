"""A checkpoint is read to main memory, not to the GPU that it was saved from.

Without `map_location`, tensors go back to the GPU whose index is in the file: all processes would put them on the same one.
`load_state_dict` moves them to the process's own device afterwards.  A model that was saved whole comes out ready to run: it goes
to the process's device at once, where nothing may move it later.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import SetArgument
from migrator.facts.effects.loads import unplaced_loads


def check(context: Context) -> Iterator[Diagnostic]:
    for load in unplaced_loads(context.program):
        reason = "otherwise every process would load it to the GPU it was saved from"
        if load.note != "model":
            yield RULE.converted(load.at, reason, SetArgument(load.at, "map_location", '"cpu"', 1))
            continue
        torch, imports = context.module(load.at, "torch")
        own = f'"cuda" if {torch}.cuda.is_available() else "cpu"'
        yield RULE.converted(load.at, reason, *imports, SetArgument(load.at, "map_location", own, 1))


RULE = Rule("MG602", "load-device", check, __doc__ or "", hazards=("H97",), keeps=("memory",), parallel=False)
