"""Images lie in memory as the GPU's convolutions like them, where the user asks for it.

`--channels-last` lays the weights of convolutions out channels last before the model is wrapped (processes must agree on the
layout), and each batch of images as it comes.  Values do not change, but sums are taken in another order.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.model.wrapping import made_wraps, prepare_model
from migrator.facts.networks.convolutions import convolutions


def check(context: Context) -> Iterator[Diagnostic]:
    if not context.options.channels_last or not context.program.wraps:
        return
    kinds = convolutions(context.program)
    first = context.program.wraps[0].at
    if "Conv3d" in kinds:
        yield RULE.question(
            first, "--channels-last was not applied: the model has 3-D convolutions, which it does not fit"
        )
        return
    if not kinds:
        yield RULE.note(first, "--channels-last: no 2-D convolution was found, so nothing was changed")
        return
    for wrap in made_wraps(context):
        edits = prepare_model(context, wrap, "use_channels_last", first=not context.options.sync_bn)
        if isinstance(edits, str):
            yield RULE.question(wrap.at, f"--channels-last was not applied: {edits}")
        else:
            yield RULE.converted(wrap.at, "weights and images are laid out channels last", *edits)


RULE = Rule(
    "MG322",
    "channels-last",
    check,
    __doc__ or "",
    applicability="unsafe",
    hazards=("H78",),
    sources=("https://docs.pytorch.org/tutorials/intermediate/memory_format_tutorial.html",),
    why="Convolutions sum in another order, so results differ in their last bits.",
)
