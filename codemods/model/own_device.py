"""No process puts anything on a GPU other than its own.

The process's device is set when it joins the group; "cuda" without an index means that device.  A fixed index, or the
first of a list of ids, would gather all processes on one GPU.  In files that the program loads by a name which only the run
knows, a fixed index is a question at its line.
"""

import re
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.model.chosen_device import chosen_devices
from migrator.edits import DropArgument, Remove, Replace
from migrator.facts.devices.gpu_numbers import gpu_numbers
from migrator.facts.python.syntax import Span
from migrator.facts.wraps.unlinked import unlinked_devices

_TENSORS = re.compile(r"\.device\s*\)$")  # where a tensor is, is this process's own GPU
_OTHER = re.compile(r"\.cuda\(\s*(device\s*=\s*)?[1-9]\d*\s*[,)]")  # a GPU that is not the first
_REASON = "without an index this means the process's own GPU"


def check(context: Context) -> Iterator[Diagnostic]:
    wraps, maps = context.program.wraps, [n.at for n in gpu_numbers(context.program) if n.kind == "map"]
    chosen = list(chosen_devices(context))
    for literal in context.program.device_literals:
        if any(wrap.at.contains(literal.at) and not wrap.inner.contains(literal.at) for wrap in wraps):
            continue  # goes with the wrap
        if any(place.contains(literal.at) for place in (*maps, *chosen)):
            continue
        if literal.kind == "string":
            if literal.text.strip("rbu")[1:-1] == "cuda:0":
                yield RULE.converted(literal.at, _REASON, Replace(literal.at, literal.text.replace(":0", "")))
            else:
                yield RULE.question(
                    literal.at,
                    f"{literal.text} names one GPU for all processes: is a part of the model meant to live there?",
                )
        elif literal.kind == "cuda_call" and _OTHER.search(literal.text):
            yield RULE.question(
                literal.at,
                f"{literal.text} names one GPU for all processes: is a part of the model meant to live there?",
            )
        elif literal.kind == "cuda_call":
            yield RULE.converted(literal.at, _REASON, DropArgument(literal.at, "device", 0))
        elif literal.kind == "device_call" and not context.program.text(literal.at).startswith("torch.device(type"):
            yield RULE.converted(literal.at, _REASON, DropArgument(literal.at, "index", 1))
        elif literal.kind == "set_device" and literal.at == literal.statement and not _TENSORS.search(literal.text):
            whole = context.program.module_at(literal.statement).emptied_by(literal.statement)
            yield RULE.converted(
                literal.statement, "the process's GPU is set once, when it joins the group", Remove(whole)
            )
    yield from _numbers(context)
    for device in unlinked_devices(context.program):
        yield RULE.question(
            Span(device.path, 0, 0, device.line),
            f"{device.text} names one GPU for all processes, in a file that {device.loader} may load: leave the number out",
        )


def _numbers(context: Context) -> Iterator[Diagnostic]:
    """Names that are put together, and numbers where a device stands."""
    program = context.program
    done = [literal.at for literal in program.device_literals if literal.kind in ("cuda_call", "set_device")]
    done += [literal.at for literal in program.device_literals if literal.kind == "device_call"]
    done += [wrap.at for wrap in program.wraps]
    numbers = gpu_numbers(program)
    maps = [number.at for number in numbers if number.kind == "map"]
    for number in numbers:
        if number.at in maps:
            yield RULE.converted(
                number.at, "read to main memory, whichever GPU it was saved from", Replace(number.at, '"cpu"')
            )
        if any(place.contains(number.at) for place in (*done, *maps)):
            continue
        if number.text.isdigit() and number.text != "0":
            yield RULE.question(
                number.at, f"{number.text} names one GPU for all processes: is a part of the model meant to live there?"
            )
            continue
        own = "None" if number.kind == "context" else '"cuda"'
        yield RULE.converted(number.at, _REASON, Replace(number.at, own))


RULE = Rule("MG311", "own-device", check, __doc__ or "", hazards=("H72",), keeps=("memory",))
