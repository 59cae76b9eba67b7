"""Whether the model may keep statistics of its batches, which each forward pass changes in place.

In: a `Program`.  Out: False only where nothing in it names a layer that keeps them, or a library's ready network.  Source: two
forward passes of DistributedDataParallel before one backward pass exchange the buffers between them, which on GPUs autograd may
refuse ("modified by an inplace operation", H44).
"""

from __future__ import annotations

import re

from migrator.facts.program import Program

_KEEPS = re.compile(
    r"BatchNorm|InstanceNorm|[Ss]pectral_?[Nn]orm|register_buffer|norm_layer|torchvision[\w. ]*models"
    r"|\b(timm|pretrainedmodels|segmentation_models_pytorch|monai)\b"
)


def may_keep_statistics(program: Program) -> bool:
    return any(_KEEPS.search(module.text) for module in program.modules)
