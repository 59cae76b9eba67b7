"""A checkpoint does not depend on the class that wraps the model.

`torch.save(model)` pickles the wrapper with its class: what was `DataParallel` in the file would be the new wrapper, which an
older program cannot read, and which needs a process group to be read.  The file goes on to hold a DataParallel, made for it.
Where the program reads such a file itself, the model that comes out would be trained unwrapped: that is for a person.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.python.syntax import Span
from migrator.facts.wraps.whole_models import whole_models, whole_models_read


def check(context: Context) -> Iterator[Diagnostic]:
    wrapped = False
    for saved in whole_models(context.program):
        wrapped = wrapped or saved.is_wrapped
        if saved.is_wrapped:
            yield _kept(context, saved.at)
        else:
            yield RULE.question(
                saved.at,
                "a whole model is saved, with the wrapper's class in a part of it: save its state_dict(), and read it back so",
            )
    for at in whole_models_read(context.program) if wrapped else ():
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


RULE = Rule("MG601", "whole-objects", check, __doc__ or "", hazards=("H98",), keeps=("compatibility",))
