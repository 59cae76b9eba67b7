"""Reading checkpoints back: which loads would put tensors where they were saved from.

In: a `Program`.  Out: `torch.load` calls without `map_location` whose result is a checkpoint, or a whole model that was pickled: the
note says which.  Caches of data sets, which hold no GPU tensors, are left out.
"""

from __future__ import annotations

import ast

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.nodes import argument, has_unpacking, names_in
from migrator.facts.python.syntax import Module

_RUN_METHODS = frozenset(["cuda", "to", "eval", "train", "parameters", "half", "float", "forward", "zero_grad"])
_MODEL_METHODS = frozenset(
    ["cuda", "to", "eval", "train", "parameters", "state_dict", "load_state_dict", "module", "half"]
)


def unplaced_loads(program: Program) -> list[Place]:
    """Loads that do not say on which device; the note is `model` for one that gives a model ready to run."""
    found = []
    for module, call in program.calls():
        if program.external(module, call) != "torch.load" or has_unpacking(call):
            continue
        if argument(call, "map_location", 1) is not None or _in_dataset(module, call):
            continue
        kind = "model" if _is_model(program, module, call) else "checkpoint"
        if kind == "model" or _is_checkpoint(program, module, call):
            found.append(Place(module.span(call), module.span(module.statement(call)), module.segment(call), kind))
    return found


def _is_model(program: Program, module: Module, call: ast.Call) -> bool:
    """True when what is read is run, or asked for its parameters, as it is; or was saved as a model under this path."""
    parent = module.parents.get(call)
    if isinstance(parent, ast.Attribute):
        return _runs(module, call)
    if not isinstance(parent, ast.Assign) or not isinstance(parent.targets[0], ast.Name):
        return False
    name = parent.targets[0].id
    uses = [n for n in module.nodes if isinstance(n, ast.Name) and n.id == name and _comes_later(module, call, n)]
    if any(_used_as_checkpoint(module, use, {name}) and not _runs(module, use) for use in uses):
        return False
    return any(_runs(module, use) for use in uses) or (bool(uses) and _is_saved_model(program, module, call))


def _comes_later(module: Module, call: ast.Call, use: ast.Name) -> bool:
    """True where the name is asked for behind the call, or in a function that sees it."""
    there = module.scope_of.get(use, module.scope)
    home = module.scope_of.get(call, module.scope)
    found = module.lookup(use.id, there)
    if not isinstance(use.ctx, ast.Load) or found is None or found[0] is not home:
        return False
    return there is not home or module.span(use).start > module.span(call).end


def _runs(module: Module, use: ast.AST) -> bool:
    """True for `model(...)` and `model.eval()`."""
    parent = module.parents.get(use)
    if isinstance(parent, ast.Attribute) and parent.attr in _RUN_METHODS:
        use, parent = parent, module.parents.get(parent)
    return isinstance(parent, ast.Call) and parent.func is use


def _is_saved_model(program: Program, module: Module, call: ast.Call) -> bool:
    """True when `torch.save(model.module, path)` has written to the same path."""
    path = module.segment(call.args[0]) if call.args else ""
    for owner, saving in program.calls():
        if program.external(owner, saving) == "torch.save" and len(saving.args) > 1:
            saved = saving.args[0]
            whole = saved.value if isinstance(saved, ast.Attribute) and saved.attr == "module" else saved
            if owner.segment(saving.args[1]) == path and program.is_wrapped(owner, whole):
                return True
    return False


def _in_dataset(module: Module, call: ast.Call) -> bool:
    owner = module.scope_of.get(call, module.scope).owner_class
    return (
        owner is not None
        and isinstance(owner.node, ast.ClassDef)
        and any(isinstance(s, ast.FunctionDef) and s.name == "__getitem__" for s in owner.node.body)
    )


def _is_checkpoint(program: Program, module: Module, call: ast.Call) -> bool:
    """True when the result is loaded into something, indexed, or used as a model."""
    parent = module.parents.get(call)
    if isinstance(parent, ast.Subscript):
        return True
    if isinstance(parent, ast.Attribute):
        return parent.attr in _MODEL_METHODS
    if isinstance(parent, ast.Call):
        return _loads(parent) or _is_loaded_by(program, module, parent, call)
    if isinstance(parent, ast.Return):
        return module.scope_of.get(call, module.scope).is_function
    if not isinstance(parent, ast.Assign) or parent.value is not call:
        return False
    names = {t.id for t in parent.targets if isinstance(t, ast.Name)}
    names |= {t.attr for t in parent.targets if isinstance(t, ast.Attribute)}
    handed = [n for n in module.nodes if isinstance(n, ast.Call) and any(_is_one(a, names) for a in n.args)]
    if any(_is_loaded_by(program, module, n, a) for n in handed for a in n.args if _is_one(a, names)):
        return True
    return any(_used_as_checkpoint(module, node, names) for node in module.nodes)


def _is_one(node: ast.AST, names: set[str]) -> bool:
    return isinstance(node, ast.Name) and node.id in names


def _is_loaded_by(program: Program, module: Module, call: ast.Call, given: ast.AST) -> bool:
    """True when a function of the project is given what was read, and loads it into a model."""
    callee = program.resolver.callee(module, call)
    function = callee[1] if callee is not None else None
    position = next((i for i, value in enumerate(call.args) if value is given), None)
    if position is None or not isinstance(function, ast.FunctionDef):
        return False
    arguments = [a.arg for a in function.args.args]
    if arguments[:1] == ["self"] and isinstance(call.func, ast.Attribute):
        position += 1
    if position >= len(arguments):
        return False
    loads = [n for n in ast.walk(function) if isinstance(n, ast.Call) and _loads(n)]
    return any(arguments[position] in names_in(value) for n in loads for value in n.args)


def _used_as_checkpoint(module: Module, node: ast.AST, names: set[str]) -> bool:
    if not isinstance(node, ast.Name | ast.Attribute) or not isinstance(node.ctx, ast.Load):
        return False
    if (node.id if isinstance(node, ast.Name) else node.attr) not in names:
        return False
    parent = module.parents.get(node)
    if isinstance(parent, ast.Subscript) and parent.value is node:
        return isinstance(parent.slice, ast.Constant) and isinstance(parent.slice.value, str)
    if isinstance(parent, ast.Attribute):
        return parent.attr in (*_MODEL_METHODS, "items", "keys", "get")
    return isinstance(parent, ast.Call) and _loads(parent)


def _loads(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "load_state_dict"
