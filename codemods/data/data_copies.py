"""The machine's memory holds the data once for each process.

A data set that is read whole when it is made was in memory once; each process makes its own now.  Nothing changes in the
training; where memory is short, `mmap_mode="r"` lets all processes look at the same file.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.loaders.data_in_memory import read_into_data_sets


def check(context: Context) -> Iterator[Diagnostic]:
    for at, name in read_into_data_sets(context.program):
        advice = ' (mmap_mode="r" would share it)' if name == "numpy.load" else ""
        yield RULE.note(at, f"every process holds its own copy of this in memory{advice}")


RULE = Rule("MG207", "data-copies", check, __doc__ or "", applicability="display-only", hazards=("H21",))
