"""A test for DataParallel still recognises the wrapped model.

`isinstance(model, nn.DataParallel)` usually decides whether `.module` is taken; with the new wrapper it would be false, and
the wrong branch would run.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import AddImport, Edit, Replace


def check(context: Context) -> Iterator[Diagnostic]:
    for test in context.program.type_tests:
        edits: list[Edit] = []
        if context.sharing.way == "call":
            edits += [context.helper(test.at, "SplitDataParallel"), Replace(test.at, "SplitDataParallel")]
        else:
            edits += [
                AddImport(test.at, "from torch.nn.parallel import DistributedDataParallel"),
                Replace(test.at, "DistributedDataParallel"),
            ]
        yield RULE.converted(test.at, "the wrapped model is of this class now", *edits)


RULE = Rule("MG304", "type-tests", check, __doc__ or "", hazards=("H49",))
