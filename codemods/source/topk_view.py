"""The first rows of a transposed tensor are laid out anew before they are counted.

`correct[:k].view(-1)` of the usual top-k accuracy worked while comparing gave contiguous results; since torch 1.7 it keeps
the transposed layout, which `view` refuses.  `reshape` gives the same elements, and copies only where it must.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace, SetArgument
from migrator.facts.syntax import Module


def check(context: Context) -> Iterator[Diagnostic]:
    for module, call in context.program.calls():
        func = call.func
        if not isinstance(func, ast.Attribute) or func.attr != "view" or call.keywords:
            continue
        if [module.segment(a).replace(" ", "") for a in call.args] != ["-1"]:
            continue
        rows = func.value
        if not (isinstance(rows, ast.Subscript) and isinstance(rows.slice, ast.Slice) and rows.slice.lower is None):
            continue
        parent = module.parents.get(call)
        if isinstance(parent, ast.Attribute) and parent.attr.endswith("_"):
            continue  # written to: a copy would not do
        yield RULE.converted(
            module.span(call),
            "`view` refuses rows of a transposed tensor",
            Replace(module.span(func), "$0.reshape", (module.span(rows),)),
        )
        total = _total(module, call)
        if total is not None and _is_indexed(context, module, call):
            yield RULE.converted(
                module.span(total),
                "a sum was a tensor of one element, which the program indexes; today's has no dimension left",
                SetArgument(module.span(total), "keepdim", "True", 1),
            )


def _total(module: Module, call: ast.Call) -> ast.Call | None:
    """The `.sum(0)` behind the view, `.float()` apart."""
    current: ast.AST = call
    while True:
        attribute = module.parents.get(current)
        outer = module.parents.get(attribute) if attribute is not None else None
        if not isinstance(attribute, ast.Attribute) or not isinstance(outer, ast.Call) or outer.func is not attribute:
            return None
        if attribute.attr == "sum":
            plain = [module.segment(a) for a in outer.args] == ["0"] and not outer.keywords
            return outer if plain else None
        if attribute.attr not in ("float", "double"):
            return None
        current = outer


def _is_indexed(context: Context, module: Module, call: ast.Call) -> bool:
    """True when what the function gives back is taken apart by `[0]` where it was called."""
    function = module.enclosing_function(call)
    resolver = context.program.resolver
    for owner in context.program.modules:
        for node in owner.nodes:
            if not (isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name)):
                continue
            if not (isinstance(node.slice, ast.Constant) and node.slice.value == 0):
                continue
            found = owner.lookup(node.value.id, owner.scope_of.get(node, owner.scope))
            for binding in found[1] if found else []:
                if binding.kind == "assign" and binding.path and isinstance(binding.value, ast.Call):
                    callee = resolver.callee(owner, binding.value)
                    if callee is not None and callee[1] is function:
                        return True
    return False


RULE = Rule(
    "MG008",
    "topk-view",
    check,
    __doc__ or "",
    sources=("pytorch/examples#836",),
    evaluation=True,
    keeps=("alone",),
    parallel=False,
)
