"""What speaks against loading shares of batches, outside the training loop.

In: a `Program`.  Out: places with the reason: the model's own forward pass, moves of the wrapped model that its gradient hooks do
not survive, random numbers that are put back to a saved state, and new tensors that are made on the GPU by default.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.networks.forward import UNUSED, Against, against_ddp
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module

_MOVES = frozenset(["cpu", "half", "double", "bfloat16"])
_RESTORES = frozenset(
    [
        *(
            "torch.set_rng_state",
            "torch.random.set_rng_state",
            "torch.cuda.set_rng_state",
            "torch.cuda.set_rng_state_all",
        ),
        *("random.setstate", "numpy.random.set_state"),
    ]
)
_TRANSFORMERS = frozenset(["transformers", "pytorch_transformers", "pytorch_pretrained_bert"])
_DEFAULTS = frozenset(["torch.set_default_tensor_type", "torch.set_default_device"])


def unfit(program: Program) -> Iterator[Against]:
    """Every obstacle that is not in the training loop itself."""
    for module, call in program.calls():
        name = program.external(module, call)
        if name in _RESTORES:
            yield module, call, "random numbers are put back to a saved state, on all processes alike"
        elif puts_tensors_on_gpu(program, module, call):
            yield module, call, "new tensors are made on the GPU, also those that draw the order of the samples"
        elif (
            isinstance(call.func, ast.Attribute) and _moves_away(call) and _is_wrapped(program, module, call.func.value)
        ):
            yield module, call, "the wrapped model is moved or converted, which its gradient hooks do not survive"
    yield from against_ddp(program)
    yield from _bare_transformers(program)


def _bare_transformers(program: Program) -> Iterator[Against]:
    """`BertModel` and the like end in a pooler, which most programs that build upon one leave unused."""
    for module in program.modules:
        if not any(name.split(".")[0] in _TRANSFORMERS for name in module.imports.values()):
            continue
        for node in module.nodes:
            if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
                library, _, name = (module.qualified(node) or "").rpartition(".")
                if library.split(".")[0] in _TRANSFORMERS and name.endswith("Model") and name != "PreTrainedModel":
                    yield module, node, f"{UNUSED} every part of a {name}, as far as can be seen"
                    return


def puts_tensors_on_gpu(program: Program, module: Module, call: ast.Call) -> bool:
    """`set_default_tensor_type("torch.cuda.FloatTensor")`, `set_default_device("cuda")`."""
    if program.external(module, call) not in _DEFAULTS or not call.args:
        return False
    first = call.args[0]
    return "cuda" in (str(first.value) if isinstance(first, ast.Constant) else dotted(first) or "")


def _moves_away(call: ast.Call) -> bool:
    assert isinstance(call.func, ast.Attribute)
    if call.func.attr in _MOVES and not call.args:
        return True
    return call.func.attr == "to" and any(isinstance(a, ast.Constant) and a.value == "cpu" for a in call.args)


def _is_wrapped(program: Program, module: Module, node: ast.AST) -> bool:
    while isinstance(node, ast.Attribute) and node.attr == "module":
        node = node.value
    return program.is_wrapped(module, node)
