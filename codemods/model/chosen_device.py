"""The program's device is the one that the Accelerator chose.

`"cuda" if torch.cuda.is_available() else "cpu"` is right on most machines; where accelerate takes another device (a Mac's, or
the CPU because somebody asked for it), batches moved by the program would leave the model's.  A device that is compared or
shown is left as it is: its index would be seen.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.devices.device_choices import device_choices
from migrator.facts.python.syntax import Span


def check(context: Context) -> Iterator[Diagnostic]:
    for at in chosen_devices(context):
        yield RULE.converted(at, "where the model is, too", Replace(at, f"{context.accelerator(at)}.device"))


def chosen_devices(context: Context) -> Iterator[Span]:
    """Choices between the GPU and the CPU that become the Accelerator's."""
    if context.accelerate and context.sharing.way in ("distributed", "batch"):
        yield from (at for at in device_choices(context.program) if context.is_after_start(at))


RULE = Rule("MG318", "chosen-device", check, __doc__ or "", hazards=("H109",), keeps=("alone",))
