"""The program's device is the one that the Accelerator chose.

`"cuda" if torch.cuda.is_available() else "cpu"` is right on most machines; where accelerate takes another device (a Mac's, or
the CPU because somebody asked for it), batches moved by the program would leave the model's.  A device that is compared or
shown is left as it is: its index would be seen.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.device_choices import device_choices


def check(context: Context) -> Iterator[Diagnostic]:
    if not context.accelerate or context.sharing.way not in ("distributed", "batch"):
        return
    for at in device_choices(context.program):
        if context.is_after_start(at):
            yield RULE.converted(at, "where the model is, too", Replace(at, f"{context.accelerator(at)}.device"))


RULE = Rule("MG318", "chosen-device", check, __doc__ or "", hazards=("H109",), keeps=("alone",))
