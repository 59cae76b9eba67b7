"""Calls that seed, draw random numbers or use a GPU, told by their names in their libraries."""

from __future__ import annotations

import ast
import re

_RANDOM = ("torch.rand", "torch.normal", "torch.bernoulli", "numpy.random.", "random.")
_CUDA = re.compile(r"^torch\.(cuda\.(?!is_available|device_count|amp\b)|set_default_tensor_type|set_default_device)")
# Layers and models that start with random weights, and tensors of random numbers.
_DRAWN = re.compile(
    r"torch\.nn\.(Linear|LazyLinear|Bilinear|Conv\w+|Embedding\w*|LSTM|GRU|RNN|Transformer\w*|MultiheadAttention)$"
    r"|torchvision\.models\.\w+$|torch\.(rand|randn|randint|randperm|normal)$|numpy\.random\.(rand|randn|randint|permutation|shuffle|choice)$"
)
_SEED = re.compile(r"(^|\.)(manual_seed(_all)?|seed|set_seed|fix_seed|RandomState|default_rng|seed_everything)$")


def seeds(name: str) -> bool:
    """True for a call that seeds: it asks nothing of the other processes."""
    return bool(_SEED.search(name))


def draws_or_moves(call: ast.Call, name: str) -> bool:
    """True for a layer or model, whose weights are drawn when it is made, and for a move to the GPU."""
    moves = isinstance(call.func, ast.Attribute) and call.func.attr == "cuda" and not name.startswith("torch.cuda")
    return moves or bool(_DRAWN.match(name))


def draws_or_seeds(name: str) -> bool:
    """True for a call that seeds, draws random numbers or asks the GPUs for more than their number."""
    return name.startswith(_RANDOM) or bool(_CUDA.match(name)) or seeds(name)
