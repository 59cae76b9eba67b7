"""How the program wraps the trained model and what else it does with it: what speaks against sharing batches out.

In: a `Reader` and the training loop.  Out: its obstacles.
"""

from __future__ import annotations

import ast

from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.model import GuardFact
from migrator.facts.networks.switching import only_switches
from migrator.facts.program import Program
from migrator.facts.python.settled import settled, stays_off
from migrator.facts.python.syntax import Module
from migrator.facts.steps.freezing import is_never_called
from migrator.facts.training.reader import Reader
from migrator.facts.wraps.evaluation_wraps import training_wraps
from migrator.facts.wraps.part_wraps import against_whole
from migrator.facts.wraps.replaced_parts import releases, replaces_part

_READING_METHODS = frozenset(
    [
        "state_dict",
        "load_state_dict",
        "parameters",
        "named_parameters",
        "children",
        "named_children",
        "modules",
        "named_modules",
        "buffers",
        "named_buffers",
        "train",
        "eval",
        "zero_grad",
        "cpu",
        "cuda",
        "to",
        "half",
        "float",
        "apply",
        "save_pretrained",
        "get_parameters",
        "register_forward_hook",
    ]
)


def check_wraps(reader: Reader) -> None:
    program = reader.program
    wraps = training_wraps(program)
    for wrap in wraps:
        module = program.module_at(wrap.at)
        node = reader.node(module, wrap.at)
        if wrap.kind != "class":
            reader.obstacle(module, node, "this is not a plain DataParallel of a whole model")
        elif wrap.submodule:
            reader.obstacle(module, node, f"only a part of the model is wrapped{against_whole(program, wrap)}")
        elif wrap.dim not in (None, "0"):
            reader.obstacle(module, node, "the batch is not the first dimension")
        elif not wrap.target:
            reader.obstacle(module, node, "the wrapped model has no name of its own")
    for wrap in wraps:
        for guard in wrap.guards:
            if not (guard.parallel or guard.wraps_elsewhere or guard.leaves or guard.is_entry):
                module = program.module_at(wrap.at)
                if _is_beside_own(program, module, guard):
                    continue
                reader.obstacle(
                    module, reader.node(module, wrap.at), f"whether the model is wrapped depends on `{guard.test}`"
                )
    joins = any(place.note == "init_process_group" for place in program.existing_ddp)
    for place in program.existing_ddp:
        module = program.module_at(place.at)
        if joins and stays_off(program, module, reader.node(module, place.at)):
            continue  # taken all the same, it would join a second group, which is an error: see MG103
        reader.obstacle(module, reader.node(module, place.at), "the program has a distributed branch of its own")
    for one in program.look_alikes:
        module = program.module_at(one.at)
        reader.obstacle(module, reader.node(module, one.at), f"{one.name} has rules of its own")


def _is_beside_own(program: Program, module: Module, guard: GuardFact) -> bool:
    """True where the defaults lead to the wrap, and another setting to the program's own DistributedDataParallel."""
    node = next(n for n in module.nodes if isinstance(n, ast.If) and module.span(n) == guard.at)
    other = [module.span(s) for s in (node.body if guard.orelse else node.orelse)]
    own = [place for place in program.existing_ddp if place.note != "init_process_group"]
    if not any(span.contains(place.at) for span in other for place in own):
        return False
    return settled(program, module, node.test) is (not guard.orelse)


def check_model_uses(reader: Reader, module: Module, loop: BatchLoop) -> None:
    program = reader.program
    for owner in program.modules:
        for node in owner.nodes:
            if isinstance(node, ast.Call | ast.Assign) and (
                node in reader.toggles or program.is_unreached(owner, node)
            ):
                continue
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                chain = node.func
                inner = chain.value
                through = chain.attr == "module" or (isinstance(inner, ast.Attribute) and inner.attr == "module")
                if (
                    through
                    and _wrapped_base(reader, owner, chain)
                    and chain.attr not in _READING_METHODS
                    and not only_switches(program, chain.attr)
                ):
                    reader.obstacle(owner, node, "the model is also run past its wrapper")
                if chain.attr == "add_param_group":
                    reader.obstacle(owner, node, "parameters are given to an optimizer later")
                if chain.attr in ("requires_grad_", "register_backward_hook") and _after_wrap(reader, owner, node):
                    reader.obstacle(owner, node, "parameters are frozen or released after the model was wrapped")
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if (
                        isinstance(target, ast.Attribute)
                        and target.attr == "requires_grad"
                        and _after_wrap(reader, owner, node)
                    ):
                        reader.obstacle(owner, node, "parameters are frozen or released after the model was wrapped")
            if releases(node) and _after_wrap(reader, owner, node):
                reader.obstacle(owner, node, "parameters are frozen or released after the model was wrapped")
            if replaces_part(program, owner, node):
                reader.obstacle(owner, node, "a part of the wrapped model is replaced")
            if isinstance(node, ast.Call) and program.external(owner, node) == "torch.autograd.grad":
                reader.obstacle(owner, node, "gradients are taken by hand")
            if isinstance(node, ast.Call) and program.external(owner, node).startswith("torch.save") and node.args:
                if program.is_wrapped(owner, node.args[0]):
                    reader.obstacle(owner, node, "the wrapped model is saved as an object")


def _wrapped_base(reader: Reader, module: Module, chain: ast.Attribute) -> bool:
    base: ast.AST = chain.value
    while isinstance(base, ast.Attribute) and base.attr == "module":
        base = base.value
    return reader.program.is_wrapped(module, base)


def _after_wrap(reader: Reader, module: Module, node: ast.AST) -> bool:
    """True when the statement may run after a wrap: behind it in its function, or in any other function."""
    if is_never_called(reader.program, module, node):
        return False
    scope = module.scope_of.get(node)
    for wrap in reader.program.wraps:
        if wrap.at.path == module.path:
            wrap_scope = module.scope_of.get(reader.node(module, wrap.at))
            if scope is wrap_scope:
                return module.span(node).start > wrap.at.start
    return scope is not module.scope and not (
        scope is not None and scope.owner_class is not None and _is_model_class(reader, module, scope.owner_class.node)
    )


def _is_model_class(reader: Reader, module: Module, node: ast.AST) -> bool:
    return isinstance(node, ast.ClassDef) and any(
        "Module" in base for base in reader.resolver.external_bases(module, node)
    )
