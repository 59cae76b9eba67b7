"""Which losses are plain means over the samples of a batch, so that the mean of shares is the mean of the whole.

In: a call in the training loop.  Out: a `LossVerdict`, or None when the call is no loss that is known.  A loss with class
weights, ignored targets, a sum or a count of its own for a denominator is not plain, nor is one that couples samples.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, has_unpacking
from migrator.facts.python.syntax import Module

# name → position of the argument that makes the mean weighted, or -1 where weights stay element by element
_CLASSES = {
    "CrossEntropyLoss": 0,
    "NLLLoss": 0,
    "MSELoss": -1,
    "L1Loss": -1,
    "SmoothL1Loss": -1,
    "HuberLoss": -1,
    "BCELoss": -1,
    "BCEWithLogitsLoss": -1,
    "SoftMarginLoss": -1,
    "MultiLabelMarginLoss": -1,
    "MultiLabelSoftMarginLoss": -1,
    "PoissonNLLLoss": -1,
    "CosineEmbeddingLoss": -1,
    "MarginRankingLoss": -1,
    "TripletMarginLoss": -1,
    "HingeEmbeddingLoss": -1,
}
_FUNCTIONS = {
    "cross_entropy": 2,
    "nll_loss": 2,
    "mse_loss": -1,
    "l1_loss": -1,
    "smooth_l1_loss": -1,
    "huber_loss": -1,
    "binary_cross_entropy": -1,
    "binary_cross_entropy_with_logits": -1,
}


@dataclass(frozen=True, slots=True)
class LossVerdict:
    """Whether the loss is a plain mean over samples, and why not."""

    plain: bool
    reason: str = ""


def judge(program: Program, module: Module, call: ast.Call) -> LossVerdict | None:
    """Judge a call of a criterion object or of a loss function of torch."""
    name = program.external(module, call)
    head, _, tail = name.rpartition(".")
    if head == "torch.nn.functional" and tail in _FUNCTIONS:
        return _judge_arguments(call, tail, _FUNCTIONS[tail], functional=True)
    if program.is_wrapped(module, call.func):
        return None
    verdicts: list[LossVerdict] = []
    if not isinstance(call.func, ast.Name | ast.Attribute | ast.Call | ast.Subscript):
        return None
    for value in program.resolver.values(module, call.func):
        if value.kind == "call" and isinstance(value.node, ast.Call):
            owner, _, made = value.name.rpartition(".")
            if not owner.startswith("torch.nn") or not made.endswith("Loss"):
                return None
            if made not in _CLASSES:
                verdicts.append(LossVerdict(False, f"{made} is not known to be a plain mean over samples"))
            else:
                verdicts.append(_judge_arguments(value.node, made, _CLASSES[made], functional=False))
        elif value.kind == "instance" and value.module is not None and isinstance(value.node, ast.Call):
            if _is_module(program, value.module, value.node):
                verdicts.append(
                    LossVerdict(False, f"the loss {value.name} is the program's own: it may look at the whole batch")
                )
            else:
                return None
        else:
            return None
    if not verdicts:
        return None
    return next((v for v in verdicts if not v.plain), verdicts[0])


def _is_module(program: Program, module: Module, call: ast.Call) -> bool:
    found = program.resolver.definition(module.qualified(call.func), module)
    if found is None or not isinstance(found[1], ast.ClassDef):
        return False
    return any(base.endswith(("Module", "Loss")) for base in program.resolver.external_bases(found[0], found[1]))


def _judge_arguments(call: ast.Call, name: str, weight: int, functional: bool) -> LossVerdict:
    if has_unpacking(call):
        return LossVerdict(False, f"the arguments of {name} are not all in sight")
    offset = 2 if functional else 0
    if weight >= 0:
        given = argument(call, "weight", weight)
        if given is not None and not (isinstance(given, ast.Constant) and given.value is None):
            return LossVerdict(False, f"{name} divides by the weights of the classes in the batch")
        ignored = argument(call, "ignore_index", None)
        if ignored is not None:
            return LossVerdict(False, f"{name} divides by the number of targets that it does not ignore")
    for keyword in ("size_average", "reduce"):
        given = argument(call, keyword, None)
        if given is not None and not (isinstance(given, ast.Constant) and given.value in (True, None)):
            return LossVerdict(False, f"{name} with {keyword} is not a mean")
    reduction = argument(call, "reduction", None)
    if reduction is not None and not (isinstance(reduction, ast.Constant) and reduction.value == "mean"):
        return LossVerdict(False, f"{name} with another reduction is not a mean over samples")
    if not functional and name not in ("MSELoss", "L1Loss") and len(call.args) > 1:
        return LossVerdict(False, f"the positional arguments of {name} were not read")
    if functional and len(call.args) > offset + 1:
        return LossVerdict(False, f"the positional arguments of {name} were not read")
    return LossVerdict(True)
