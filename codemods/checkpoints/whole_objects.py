"""A checkpoint does not depend on the class that wraps the model.

`torch.save(model)` pickles the wrapper with its class: what was `DataParallel` in the file would be the new wrapper, which an
older program cannot read, and which needs a process group to be read.  The file goes on to hold a DataParallel, made for it.
Where the program reads such a file itself, the model that comes out would be trained unwrapped: that is for a person.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.program import Program
from migrator.facts.syntax import Module, Span, argument, dotted


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    seen: set[ast.expr] = set()
    wrapped = False
    for module, call in program.calls():
        if program.external(module, call) != "torch.save":
            continue
        for part_module, part in _parts(context, module, argument(call, "obj", 0)):
            if part in seen or _unwrapped(part):
                continue
            seen.add(part)
            if program.is_wrapped(part_module, part):
                wrapped = True
                yield _kept(context, part_module.span(part))
            elif _holds_wrap(program, part_module, part):
                yield RULE.question(
                    part_module.span(part),
                    "a whole model is saved, with the wrapper's class in a part of it: save its state_dict(), and read it back so",
                )
    for at in _read_back(program) if wrapped else ():
        yield RULE.question(
            at,
            "if a whole model comes out of this file, it is in the DataParallel that was saved with it: wrap its .module",
        )


def _kept(context: Context, at: Span) -> Diagnostic:
    """What is saved is a DataParallel as before, or a question."""
    program, text = context.program, context.program.text(at)
    if context.accelerate or any(wrap.dim not in (None, "0") for wrap in program.wraps):
        return RULE.question(
            at,
            f"the whole wrapped model is saved, with the wrapper's class: save {text}.state_dict(), "
            f"or {text}.module, and read it back in the same way",
        )
    nn, imports = context.module(at, "torch.nn")
    reason = "the file holds a DataParallel, as it always did: it is read without a process group"
    return RULE.converted(at, reason, *imports, Replace(at, f"{nn}.DataParallel($0.module)", (at,)))


def _read_back(program: Program) -> list[Span]:
    """Where a whole model is read, as far as it is seen; else where something is read that may be more than weights."""
    found = [module.span(node) for module, node in _loaded_wrappers(program)]
    for module, call in () if found else program.calls():
        if program.external(module, call) != "torch.load":
            continue
        outer = module.parents.get(call)
        if not (isinstance(outer, ast.Call) and (dotted(outer.func) or "").endswith(".load_state_dict")):
            found.append(module.span(call))
    return found


def _parts(context: Context, module: Module, node: ast.expr | None) -> Iterator[tuple[Module, ast.expr]]:
    """What is saved: the expression itself, or the values of the dictionary or list that it is."""
    if node is None:
        return
    if isinstance(node, ast.Name | ast.Attribute):
        yield module, node
    for value in context.program.resolver.values(module, node):
        if value.kind == "display" and value.module is not None:
            items = value.node.values if isinstance(value.node, ast.Dict) else getattr(value.node, "elts", [])
            yield from ((value.module, item) for item in items if isinstance(item, ast.Name | ast.Attribute))


def _holds_wrap(program: Program, module: Module, node: ast.expr) -> bool:
    """True for a model of which a part is wrapped."""
    text = module.segment(node)
    if any(wrap.target.startswith(f"{text}.") for wrap in program.wraps):
        return True
    inside = [wrap.at for wrap in program.wraps if wrap.in_class]
    for value in program.resolver.values(module, node) if inside else ():
        if value.kind == "instance" and value.module is not None and isinstance(value.node, ast.Call):
            found = program.resolver.definition(value.module.qualified(value.node.func), value.module)
            if found is not None and any(found[0].span(found[1]).contains(at) for at in inside):
                return True
    return False


def _loaded_wrappers(program: Program) -> Iterator[tuple[Module, ast.Assign]]:
    """`model = torch.load(file)` and `model = checkpoint["model"]`, for a name that holds the wrapped model elsewhere."""
    targets = {wrap.target for wrap in program.wraps} - {""}
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.Assign) and module.segment(node.targets[0]) in targets:
                value = node.value.value if isinstance(node.value, ast.Subscript) else node.value
                if any(v.kind == "call" and v.name == "torch.load" for v in program.resolver.values(module, value)):
                    yield module, node


def _unwrapped(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "module"


RULE = Rule("MG601", "whole-objects", check, __doc__ or "", hazards=("H98",), keeps=("compatibility",))
