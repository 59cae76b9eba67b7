"""Tensors that are made without a device are made where the program says, on the process's own GPU.

With a default of CUDA, the order of the samples must be drawn by a CUDA generator too, which a DistributedSampler does not
have: such a program shares the batch where the model is called.  torch has deprecated the default type.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.training.unfit import puts_tensors_on_gpu


def check(context: Context) -> Iterator[Diagnostic]:
    for module, call in context.program.calls():
        if puts_tensors_on_gpu(context.program, module, call):
            yield RULE.note(
                module.span(call),
                "new tensors are made on each process's own GPU, so the batch is not shared out where it is loaded;"
                " `device=` at the places that need it would allow that",
            )


RULE = Rule("MG317", "default-tensors", check, __doc__ or "", applicability="display-only", hazards=("H73",))
