"""A checkpoint that holds more than tensors is read as the user allows.

Since torch 2.6 `torch.load` reads tensors and plain containers only; a file with an argparse.Namespace, numpy values or a whole
model is refused with an UnpicklingError.  Whether the files of a program hold such things is not in its source.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import SetArgument
from migrator.facts.python.nodes import argument, has_unpacking


def check(context: Context) -> Iterator[Diagnostic]:
    noted = False
    for module, call in context.program.calls():
        if context.program.external(module, call) != "torch.load" or has_unpacking(call):
            continue
        if argument(call, "weights_only", None) is not None:
            continue
        at = module.span(call)
        if context.options.unsafe:
            yield RULE.converted(
                at,
                "read as before torch 2.6: a file may run code while it is loaded",
                SetArgument(at, "weights_only", "False"),
            )
        elif not noted:
            noted = True
            yield RULE.note(
                at,
                "today's torch refuses checkpoints that hold more than tensors and plain containers;"
                " --unsafe adds weights_only=False, for files that you trust",
            )


RULE = Rule(
    "MG011",
    "old-checkpoints",
    check,
    __doc__ or "",
    applicability="unsafe",
    hazards=("H99",),
    sources=("https://docs.pytorch.org/docs/stable/notes/serialization.html",),
    why="With weights_only=False, loading a file runs whatever code its author put into it.",
    evaluation=True,
    keeps=("compatibility",),
    parallel=False,
)
