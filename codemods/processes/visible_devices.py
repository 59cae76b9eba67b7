"""Which GPUs are used is said on the command line, not in the program.

A program that sets CUDA_VISIBLE_DEVICES itself hides GPUs from its own process: with one id in it all processes would
meet on that GPU.  torchrun starts one process per GPU that the caller makes visible.  A program that hides all of them
(`-1`) keeps that.
"""

import re
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Remove
from migrator.facts.wraps.device_ids import named_devices


def check(context: Context) -> Iterator[Diagnostic]:
    for literal in context.program.device_literals:
        if literal.kind == "visible" and literal.text.rpartition("=")[2].strip(" \"'") not in ("", "-1"):
            whole = context.program.module_at(literal.statement).emptied_by(literal.statement)
            yield RULE.converted(
                literal.statement,
                "the launch command chooses the GPUs: a list set here would hide them from the processes that need them",
                Remove(whole),
            )
            chosen = re.search(r"""=\s*[rb]?["'](\d+(,\s*\d+)*)["']\s*$""", literal.text)
            if chosen and not context.options.nproc:
                yield RULE.note(
                    literal.statement,
                    f"to use the same GPUs, start it with CUDA_VISIBLE_DEVICES={chosen[1].replace(' ', '')}",
                )
    named = named_devices(context.program)
    if named is not None and not context.options.nproc:  # the launch line would use every GPU of the machine
        at, numbers = named
        start = f"CUDA_VISIBLE_DEVICES={','.join(numbers)} (or --nproc {len(numbers)})"
        yield RULE.note(at, f"to use the same GPUs, start it with {start}")


RULE = Rule("MG102", "visible-devices", check, __doc__ or "", hazards=("H75", "H76"), keeps=("memory",))
