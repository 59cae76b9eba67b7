"""What the optimizers train: the wrapped model and nothing beside it, else processes would part.

In: a `Reader`.  Out: its obstacles.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from migrator.facts.networks.parameters import is_parameter
from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, dotted, walk
from migrator.facts.python.syntax import Module
from migrator.facts.training.reader import Reader

_LIBRARIES = (
    *("torch.optim.", "apex.optimizers", "torch_optimizer", "timm.optim"),
    *("transformers.", "pytorch_transformers.", "pytorch_pretrained_bert."),
)


def check_optimizers(reader: Reader) -> None:
    program = reader.program
    found = False
    for module, call in program.calls():
        if _makes_optimizer(program, module, call):
            parameters = argument(call, "params", 0)
        elif _is_stepped(program, module, call):
            parameters = _given_parameters(call)
        else:
            continue
        found = True
        if reader.training.whole is not None:
            continue  # what is trained beside the model sees whole batches: see MG407
        sources = list(_parameter_sources(reader, module, parameters, set()))
        if not sources:
            reader.obstacle(module, call, "what this optimizer trains could not be found")
        for owner, source in sources:
            if not _is_trained_model(reader, owner, source):
                reader.obstacle(owner, source, "the optimizer also trains something outside the wrapped model")
    if not found and reader.training.whole is None:
        module = program.entry_module
        reader.obstacle(module, module.tree.body[0], "no optimizer of torch was found")


def _makes_optimizer(program: Program, module: Module, call: ast.Call) -> bool:
    """True for an optimizer of torch, of a library that adds some, or of the program's own."""
    name = program.external(module, call)
    if name.startswith(_LIBRARIES) and "lr_scheduler" not in name:
        tail = name.rpartition(".")[2]
        return tail[:1].isupper() and (name.startswith("torch.optim.") or "Adam" in tail or "Optim" in tail)
    callee = program.resolver.callee(module, call)
    if callee is None or not isinstance(callee[1], ast.ClassDef):
        return False
    bases = program.resolver.external_bases(callee[0], callee[1])
    return any(base.startswith("torch.optim.") and "lr_scheduler" not in base for base in bases)


def _is_stepped(program: Program, module: Module, call: ast.Call) -> bool:
    """True for a function of the program's own (a registry's `build`) that is given parameters and gives what makes steps.

    An optimizer that it makes itself is in sight; one that it takes from a table has these parameters and no others.
    """
    callee = program.resolver.callee(module, call)
    if callee is None or not isinstance(callee[1], ast.FunctionDef):
        return False
    if _given_parameters(call) is None:
        return False
    made = {call, *ast.walk(callee[1])}
    steps = [
        (o, c.func.value) for o, c in program.calls() if isinstance(c.func, ast.Attribute) and c.func.attr == "step"
    ]
    return any(value.node in made for owner, node in steps for value in program.resolver.values(owner, node))


def _given_parameters(call: ast.Call) -> ast.expr | None:
    """`model.parameters()` among the arguments of a call."""
    calls = (one for one in call.args if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute))
    return next((one for one in calls if isinstance(one.func, ast.Attribute) and one.func.attr == "parameters"), None)


def _parameter_sources(
    reader: Reader, module: Module, node: ast.AST | None, seen: set[ast.AST]
) -> Iterator[tuple[Module, ast.AST]]:
    """Receivers of `.parameters()` behind an optimizer's argument."""
    if node is None or node in seen:
        return
    seen.add(node)
    for inner in walk(node):
        if (
            isinstance(inner, ast.Call)
            and isinstance(inner.func, ast.Attribute)
            and inner.func.attr in ("parameters", "named_parameters")
        ):
            yield module, inner.func.value
        elif isinstance(inner, ast.Call):
            callee = reader.resolver.callee(module, inner)
            if callee is not None and isinstance(callee[1], ast.FunctionDef):
                yield from _parameter_sources(reader, callee[0], callee[1], seen)
        elif is_parameter(reader.program, module, inner):
            yield module, inner
        elif isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Load):
            found = module.lookup(inner.id, module.scope_of.get(inner, module.scope))
            for binding in found[1] if found else []:
                if binding.kind in ("assign", "item") and binding.value is not None and binding.value is not node:
                    yield from _parameter_sources(reader, module, binding.value, seen)


def _is_trained_model(reader: Reader, module: Module, node: ast.AST) -> bool:
    """True for the wrapped model, the model inside it, and parts of it."""
    base = node
    while True:
        if reader.program.is_wrapped(module, base):
            return True
        inner = {reader.program.text(w.inner) for w in reader.program.wraps}
        if isinstance(base, ast.Name | ast.Attribute) and dotted(base) in inner:
            return True
        if isinstance(base, ast.Attribute):
            base = base.value
        else:
            return False
