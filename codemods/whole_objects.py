"""A checkpoint does not depend on the class that wraps the model.

`torch.save(model)` pickles the wrapper with its class: what was `DataParallel` in the file would be the new wrapper, which an
older program cannot read.  Which part is to be saved instead, and what reads it, is for a person.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.syntax import Module, argument


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    seen: set[ast.expr] = set()
    for module, call in program.calls():
        if program.external(module, call) != "torch.save":
            continue
        for part_module, part in _parts(context, module, argument(call, "obj", 0)):
            if part not in seen and program.is_wrapped(part_module, part) and not _unwrapped(part):
                seen.add(part)
                text = part_module.segment(part)
                yield RULE.question(
                    part_module.span(part),
                    f"the whole wrapped model is saved, with the wrapper's class: save {text}.state_dict(), "
                    f"or {text}.module, and read it back in the same way",
                )


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


def _unwrapped(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "module"


RULE = Rule("MG601", "whole-objects", check, __doc__ or "", applicability="display-only", hazards=("H98",))
