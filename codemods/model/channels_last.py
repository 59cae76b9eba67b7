"""Images lie in memory as the GPU's convolutions like them, where the user asks for it.

`--channels-last` lays the weights of convolutions out channels last before the model is wrapped (processes must agree on the
layout), and each batch of images as it comes.  Values do not change, but sums are taken in another order.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.model.wrapping import prepare_model
from migrator.facts.program import Program


def check(context: Context) -> Iterator[Diagnostic]:
    if not context.options.channels_last or not context.program.wraps:
        return
    kinds = _convolutions(context.program)
    first = context.program.wraps[0].at
    if "Conv3d" in kinds:
        yield RULE.question(
            first, "--channels-last was not applied: the model has 3-D convolutions, which it does not fit"
        )
        return
    if not kinds:
        yield RULE.note(first, "--channels-last: no 2-D convolution was found, so nothing was changed")
        return
    for wrap in context.program.wraps:
        edits = prepare_model(context, wrap, "use_channels_last", first=not context.options.sync_bn)
        if isinstance(edits, str):
            yield RULE.question(wrap.at, f"--channels-last was not applied: {edits}")
        else:
            yield RULE.converted(wrap.at, "weights and images are laid out channels last", *edits)


def _convolutions(program: Program) -> set[str]:
    """Kinds of convolution that the program makes, or that a library's image model holds."""
    kinds = set()
    for module, call in program.calls():
        name = program.external(module, call)
        if name.startswith("torch.nn.Conv"):
            kinds.add(name.rpartition(".")[2])
        elif name.startswith(("torchvision.models", "timm.")):
            kinds.add("Conv2d")
    for module in program.modules:
        if any(
            isinstance(n, ast.Name | ast.Attribute) and "torchvision.models" in (module.qualified(n) or "")
            for n in module.nodes
        ):
            kinds.add("Conv2d")
    return kinds & {"Conv2d", "Conv3d", "ConvTranspose2d"}


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
