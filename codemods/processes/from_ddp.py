"""A program in DistributedDataParallel form is given back to one process before it takes accelerate's form.

Process group, DistributedSampler, ranks and wrapper are what accelerate does itself: a sampler that stays would share out the
data twice, with no message.  Places that exchange data in a way of their own are a person's to decide; then nothing is changed.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import DropArgument, Edit, Inline, Remove, Replace, SetArgument
from migrator.facts.processes.ddp_form import is_ddp_form, read_ddp_form
from migrator.facts.processes.own_ddp import Undone


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    if not context.accelerate or not is_ddp_form(program):
        return
    form = read_ddp_form(program)
    for at, message in form.problems:
        yield RULE.question(at, message)
    for place in form.places:
        yield RULE.converted(place.at, place.reason, *_edits(context, place))


def _edits(context: Context, place: Undone) -> Iterator[Edit]:
    if place.kind == "remove":
        yield Remove(place.at)
    elif place.kind == "inline":
        yield Inline(place.at)
    elif place.kind == "sampler":
        yield DropArgument(place.at, "shuffle", 2)
        yield SetArgument(place.at, "sampler", place.text, 3, rename="shuffle")
    elif place.kind == "wrap":
        name, imports = context.module(place.at, "torch")
        yield from imports
        yield Replace(place.at, f"{name}.nn.DataParallel($0{place.text}".replace("{torch}", name), place.holes)
    elif place.kind == "processes":
        name, imports = context.processes(place.at)
        yield from imports
        whole = place.text if "{processes}" in place.text else f"{{processes}}.{place.text}"
        yield Replace(place.at, whole.format(processes=name), place.holes)
    else:
        yield Replace(place.at, place.text, place.holes)


RULE = Rule("MG109", "from-ddp", check, __doc__ or "", hazards=("H15", "H117"), keeps=("trajectory",), together=True)
