"""Transfers to the GPU are spelled in a way that today's Python can parse.

`async` is a keyword since Python 3.7; torch renamed the argument to `non_blocking` at the same time, with the same meaning.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import DropArgument, SetArgument


def check(context: Context) -> Iterator[Diagnostic]:
    for call in context.program.async_transfers:
        yield RULE.converted(
            call.at,
            "`async` is a keyword since Python 3.7; torch calls the argument `non_blocking`",
            DropArgument(call.at, "asinc"),
            SetArgument(call.at, "non_blocking", call.note),
        )


RULE = Rule(
    "MG001", "non-blocking", check, __doc__ or "", hazards=("H74",), evaluation=True, keeps=("alone",), parallel=False
)
