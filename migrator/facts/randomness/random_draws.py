"""Code that draws random numbers.

In: a statement or an expression.  Out: whether running it draws, from which streams, and which of them it seeds, also in the
project's functions that it calls.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, walk
from migrator.facts.python.syntax import Module

_RANDOM = (
    "torch.rand",
    "torch.normal",
    "torch.bernoulli",
    "torch.multinomial",
    "torch.poisson",
    "torch.nn.functional.dropout",
    "torch.nn.functional.alpha_dropout",
    "torch.nn.functional.feature_alpha_dropout",
    "torch.nn.functional.gumbel_softmax",
    "numpy.random.",
    "random.",
)
# What draws unless it is given a stream or a seed of its own, by the name of that argument.
_SPLITS = {
    "torch.utils.data.random_split": "generator",
    "torch.utils.data.dataset.random_split": "generator",
    "sklearn.model_selection.train_test_split": "random_state",
    "sklearn.utils.shuffle": "random_state",
}
# What puts streams of random numbers to a known place.
_SEEDS = {
    "torch.manual_seed": ("torch",),
    "torch.random.manual_seed": ("torch",),
    "numpy.random.seed": ("numpy",),
    "random.seed": ("random",),
    "accelerate.utils.set_seed": ("torch", "numpy", "random"),
    "transformers.set_seed": ("torch", "numpy", "random"),
    "pytorch_lightning.seed_everything": ("torch", "numpy", "random"),
}
# Methods of tensors and distributions that draw.
_DRAWS = frozenset(
    ["normal_", "uniform_", "bernoulli", "bernoulli_", "random_", "exponential_", "multinomial", "rsample"]
)


def draws_random(program: Program, module: Module, node: ast.AST, depth: int = 3) -> bool:
    """True when running the code draws random numbers, also in the project's functions that it calls (not in models)."""
    return any(True for _ in _drawn(program, module, node, depth))


def draws_shared(program: Program, module: Module, node: ast.AST) -> bool:
    """The same, generators apart that the code makes and seeds itself: those give the same numbers every time."""
    return any(True for _ in _drawn(program, module, node, 3, own=False))


def drawn_streams(program: Program, module: Module, node: ast.AST) -> frozenset[str]:
    """The streams (`torch`, `numpy`, `random`) that running the code draws from; seeding them is no draw."""
    return frozenset(_stream(name) for name in _drawn(program, module, node, 3) if name not in _SEEDS)


def seeded_streams(program: Program, module: Module, node: ast.AST, depth: int = 3) -> frozenset[str]:
    """The streams that running the code puts to a known place, also in the project's functions that it calls."""
    seeded: set[str] = set()
    for call in walk(node):
        if isinstance(call, ast.Call):
            seeded.update(_SEEDS.get(program.external(module, call), ()))
            for owner, function in _called(program, module, call, node, depth):
                seeded.update(seeded_streams(program, owner, function, depth - 1))
    return frozenset(seeded)


def _drawn(program: Program, module: Module, node: ast.AST, depth: int, own: bool = True) -> Iterator[str]:
    """The names of what draws; without `own` only from streams that outlive the code."""
    for call in walk(node):
        if not isinstance(call, ast.Call):
            continue
        name = program.external(module, call)
        if not own and _is_own_stream(program, module, argument(call, "generator", None)):
            continue
        if name.startswith(_RANDOM) or (name in _SPLITS and argument(call, _SPLITS[name], None) is None):
            yield name
        elif isinstance(call.func, ast.Attribute) and call.func.attr in _DRAWS:
            yield "torch"
        for owner, function in _called(program, module, call, node, depth):
            yield from _drawn(program, owner, function, depth - 1, own)


def _is_own_stream(program: Program, module: Module, node: ast.expr | None) -> bool:
    """True for a name of the function that is given a new generator there."""
    function = module.enclosing_function(node) if isinstance(node, ast.Name) else None
    if not isinstance(node, ast.Name) or function is None:
        return False
    values = [binding.value for binding in module.scopes[function].bindings.get(node.id, ())]
    return bool(values) and all(_makes_generator(program, module, value) for value in values)


def _makes_generator(program: Program, module: Module, node: ast.AST | None) -> bool:
    """`torch.Generator()`, `torch.Generator().manual_seed(1)`."""
    if not isinstance(node, ast.Call):
        return False
    if isinstance(node.func, ast.Attribute) and node.func.attr == "manual_seed":
        return _makes_generator(program, module, node.func.value)
    return program.external(module, node) == "torch.Generator"


def _called(
    program: Program, module: Module, call: ast.Call, inside: ast.AST, depth: int
) -> Iterator[tuple[Module, ast.FunctionDef]]:
    """The project's function that a call runs; not the one that the call stands in."""
    callee = program.resolver.callee(module, call)
    if depth and callee is not None and isinstance(callee[1], ast.FunctionDef) and callee[1] is not inside:
        yield callee[0], callee[1]


def _stream(name: str) -> str:
    head = name.partition(".")[0]
    return "numpy" if head == "sklearn" else head


def draws_itself(program: Program, module: Module, call: ast.Call) -> bool:
    """True for a library's function, or a tensor's method, that draws."""
    if program.external(module, call).startswith(_RANDOM):
        return True
    return isinstance(call.func, ast.Attribute) and call.func.attr in _DRAWS
