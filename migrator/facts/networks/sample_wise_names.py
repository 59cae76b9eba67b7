"""Layers, functions and methods of torch that keep the samples of a batch apart, by their names."""

import re

# Layers of torch.nn, by how their names begin.
LAYERS = re.compile(
    r"torch\.nn\.(modules\.\w+\.)?("
    r"Linear|Conv|ReLU|LeakyReLU|PReLU|ELU|SELU|CELU|GELU|SiLU|Mish|Hard(swish|tanh|sigmoid)|Sigmoid|Tanh|Softplus|LogSigmoid"
    r"|Dropout|AlphaDropout|FeatureAlphaDropout|MaxPool|AvgPool|AdaptiveAvgPool|AdaptiveMaxPool|LayerNorm|GroupNorm"
    r"|LocalResponseNorm|Identity|Upsample|PixelShuffle|\w*Pad[123]d|Embedding$)"
)
BY_DIMENSION = re.compile(r"torch\.nn\.(modules\.\w+\.)?(Flatten|Softmax|LogSoftmax)$")
CONTAINERS = re.compile(r"torch\.nn\.(modules\.\w+\.)?(Sequential|ModuleList)$")
BATCH_NORM = re.compile(r"BatchNorm")
DROPOUT = re.compile(r"[Dd]ropout")
# Functions that look at each number, or at each sample's own.
FUNCTIONS = re.compile(
    r"torch\.(nn\.functional\.)?(relu6?_?|leaky_relu|prelu|r?elu|selu|celu|gelu|silu|mish|hard(swish|tanh|sigmoid)"
    r"|sigmoid|tanh|softplus|logsigmoid|\w*dropout[123]?d?|(adaptive_)?(avg|max)_pool[123]d|interpolate|upsample|pad"
    r"|linear|conv[123]d|layer_norm|exp|log|sqrt|abs|clamp|pow|square|add|mul|sub)$"
)
WEIGHTS = re.compile(r"\.(linear|conv[123]d|prelu|layer_norm)$")
OVER_DIMENSION = re.compile(
    r"torch\.(nn\.functional\.)?(softmax|log_softmax|normalize|flatten|mean|sum|norm|cat|concat|unsqueeze|squeeze)$"
)
DIMENSION = {"flatten": ("start_dim", 1), "normalize": ("dim", 2)}  # where it is not `dim`, second
SAME_SHAPE = frozenset(
    [
        *("contiguous", "clone", "float", "half", "double", "relu", "relu_", "sigmoid", "tanh", "exp", "log", "abs"),
        *(
            "clamp",
            "clamp_",
            "pow",
            "sqrt",
            "add",
            "add_",
            "mul",
            "mul_",
            "sub",
            "div",
            "div_",
            "to",
            "cuda",
            "type_as",
        ),
    ]
)
PLAIN = frozenset(["int", "float", "bool", "str", "len", "min", "max", "isinstance", "hasattr", "getattr"])
REDUCING = frozenset(["mean", "sum", "squeeze", "norm"])
