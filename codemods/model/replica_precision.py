"""The precision that is chosen around the wrapped call holds inside it.

DataParallel ran its replicas in threads, which heard that autocast was on but not of which type: a bfloat16 region ran the
model in float16.  In the converted program it runs in bfloat16, as it says; the numbers are not those of the original.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.syntax import argument, dotted


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    for module in program.modules:
        for node in module.nodes:
            if not isinstance(node, ast.With):
                continue
            for item in node.items:
                call = item.context_expr
                if not isinstance(call, ast.Call) or not (dotted(call.func) or "").endswith("autocast"):
                    continue
                wanted = argument(call, "dtype", None)
                if wanted is None or not (dotted(wanted) or "").endswith("bfloat16"):
                    continue
                inside = (n for s in node.body for n in ast.walk(s) if isinstance(n, ast.Call))
                if any(program.is_wrapped(module, n.func) for n in inside):
                    yield RULE.note(
                        module.span(call),
                        "DataParallel ran the model in float16 here, on more than one GPU; now it runs in bfloat16, as written",
                    )


RULE = Rule(
    "MG315",
    "replica-precision",
    check,
    __doc__ or "",
    applicability="display-only",
    hazards=("H34",),
    sources=("torch/nn/parallel/parallel_apply.py",),
)
