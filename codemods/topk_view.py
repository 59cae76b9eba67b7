"""The first rows of a transposed tensor are laid out anew before they are counted.

`correct[:k].view(-1)` of the usual top-k accuracy worked while comparing gave contiguous results; since torch 1.7 it keeps
the transposed layout, which `view` refuses.  `reshape` gives the same elements, and copies only where it must.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace


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


RULE = Rule("MG008", "topk-view", check, __doc__ or "", sources=("pytorch/examples#836",), evaluation=True)
