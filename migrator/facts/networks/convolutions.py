"""The convolutions of a program's models, as far as their constructors are seen.

In: a linked program.  Out: their kinds.
"""

from __future__ import annotations

import ast

from migrator.facts.program import Program


def convolutions(program: Program) -> set[str]:
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
