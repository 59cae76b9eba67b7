"""An error that one process meets alone, and that the program survives, is said to be one.

Where the batch is split at the call, an error in one process's forward pass is raised in all, so that all skip the batch, as
the original did.  An error in its backward pass is its own: it would go on, and the others would wait for its gradients until
their time is up.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.training.survived_errors import survived_backward_errors


def check(context: Context) -> Iterator[Diagnostic]:
    for at in survived_backward_errors(context.program):
        yield RULE.note(
            at,
            "an error in the backward pass of one process only (out of memory, say) would be survived by that one, and the "
            "others would wait for it until their time is up (--pg-timeout)",
        )


RULE = Rule("MG513", "caught-errors", check, __doc__ or "", applicability="display-only", hazards=("H85",))
