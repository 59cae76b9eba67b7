"""Which GPUs are used is said on the command line, not in the program.

A program that sets CUDA_VISIBLE_DEVICES itself hides GPUs from its own process: with one id in it all processes would
meet on that GPU.  torchrun starts one process per GPU that the caller makes visible.  A program that hides all of them
(`-1`) keeps that.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Remove


def check(context: Context) -> Iterator[Diagnostic]:
    for literal in context.program.device_literals:
        if literal.kind == "visible" and literal.text.rpartition("=")[2].strip(" \"'") not in ("", "-1"):
            whole = context.program.module_at(literal.statement).emptied_by(literal.statement)
            yield RULE.converted(
                literal.statement,
                "the launch command chooses the GPUs: a list set here would hide them from the processes that need them",
                Remove(whole),
            )


RULE = Rule("MG102", "visible-devices", check, __doc__ or "", hazards=("H75", "H76"))
