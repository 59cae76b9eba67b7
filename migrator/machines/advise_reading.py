"""What an advice needs of a program's text: parts on fixed devices, branches, frameworks, optimizers, known models.

In: parsed modules.  Out: a `Reading`.  Executes nothing, and looks for no wraps: those are the converter's to find.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

from migrator.machines.estimates import KNOWN_MODELS, PRETRAINED_MODELS


@dataclass(frozen=True, slots=True)
class Reading:
    """What a program's text says, each with its place ("file:line")."""

    wraps: tuple[str, ...] = ()
    trains: bool = True
    devices: tuple[tuple[str, str], ...] = ()  # fixed devices inside module classes: (cuda:1, place)
    branches: tuple[str, ...] = ()  # `if` in a forward that depends on its inputs
    frameworks: tuple[tuple[str, str], ...] = ()  # accelerate, transformers.Trainer, lightning, fsdp, deepspeed, rpc
    optimizers: tuple[str, ...] = ()
    models: tuple[tuple[str, int, str], ...] = ()  # known model built by name: (name, parameters, place)


_FRAMEWORKS = {
    "accelerate": re.compile(r"^accelerate(\.|$)"),
    "transformers.Trainer": re.compile(r"^transformers\.(\w+\.)*(Seq2Seq)?Trainer$"),
    "lightning": re.compile(r"^(pytorch_lightning|lightning)(\.|$)"),
    "fsdp": re.compile(r"^torch\.distributed\.(fsdp|_composable\.fsdp)"),
    "deepspeed": re.compile(r"^deepspeed(\.|$)"),
    "rpc": re.compile(r"^torch\.distributed\.(rpc|pipelining|pipeline)"),
}
_CARD = re.compile(r"^cuda:(\d+)$")


def read_trees(trees: list[tuple[str, ast.Module, dict[str, str]]]) -> Reading:
    """Read modules: (path, tree, imported name -> qualified name).  Wraps are the converter's to find; they are not here."""
    found = [_read(*one) for one in trees]
    return Reading(
        devices=tuple(d for one in found for d in one.devices),
        branches=tuple(d for one in found for d in one.branches),
        frameworks=tuple({f: p for one in reversed(found) for f, p in one.frameworks}.items()),
        optimizers=tuple(dict.fromkeys(o for one in found for o in one.optimizers)),
        models=tuple({n: (n, c, p) for one in found for n, c, p in one.models}.values()),
    )


def _read(path: str, tree: ast.Module, imports: dict[str, str]) -> Reading:
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and _is_module(node)]
    return Reading(
        devices=tuple(d for node in classes for d in _devices(path, node)),
        branches=tuple(b for node in classes for b in _branches(path, node)),
        frameworks=tuple(
            (name, path) for name, pattern in _FRAMEWORKS.items() if any(pattern.match(q) for q in imports.values())
        ),
        optimizers=tuple(dict.fromkeys(_optimizers(tree))),
        models=tuple(_models(path, tree)),
    )


def _is_module(node: ast.ClassDef) -> bool:
    return any("Module" in ast.unparse(base) for base in node.bases) or any(
        isinstance(one, ast.FunctionDef) and one.name == "forward" for one in node.body
    )


def _devices(path: str, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """`.to("cuda:1")`, `.cuda(1)` and `torch.device("cuda:1")` inside a module class."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Constant):
            continue
        value, name = call.args[0].value, ast.unparse(call.func).rpartition(".")[2]
        card = _CARD.match(value) if isinstance(value, str) else None
        if card and name in ("to", "device"):
            yield f"cuda:{card[1]}", f"{path}:{call.lineno}"
        elif name == "cuda" and isinstance(value, int) and not isinstance(value, bool):
            yield f"cuda:{value}", f"{path}:{call.lineno}"


def _branches(path: str, node: ast.ClassDef) -> Iterator[str]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "forward":
            inputs = {a.arg for a in [*method.args.args, *method.args.kwonlyargs]} - {"self"}
            for test in ast.walk(method):
                if isinstance(test, ast.If) and _asks_values(test.test, inputs) and _calls_parts(test):
                    yield f"{path}:{test.lineno}"


def _asks_values(test: ast.expr, inputs: set[str]) -> bool:
    """True where the test reads an input and is more than `x is None` or `self.training`."""
    if isinstance(test, ast.Compare) and all(isinstance(o, (ast.Is, ast.IsNot)) for o in test.ops):
        return False
    return any(isinstance(n, ast.Name) and n.id in inputs for n in ast.walk(test))


def _calls_parts(branch: ast.If) -> bool:
    """True where a branch runs some part of the module, so that another part may get no gradient."""
    return any(
        isinstance(n, ast.Call) and ast.unparse(n.func).startswith("self.")
        for part in branch.body
        for n in ast.walk(part)
    )


def _optimizers(tree: ast.Module) -> Iterator[str]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func).rpartition(".")[2]
            if name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax"):
                yield "adam"
            elif name in ("SGD", "RMSprop"):
                yield "momentum"


def _models(path: str, tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Known models: built by a call, or named in a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in KNOWN_MODELS:
                yield name, KNOWN_MODELS[name], f"{path}:{node.lineno}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60:
            for name, count in PRETRAINED_MODELS.items():
                if re.search(rf"(^|/){name}(-(un)?cased)?$", node.value):
                    yield name, count, f"{path}:{node.lineno}"
