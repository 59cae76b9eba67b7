"""A test for DataParallel still recognises the wrapped model.

`isinstance(model, nn.DataParallel)` usually decides whether `.module` is taken; with the new wrapper it would be false, and
the wrong branch would run.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import AddImport, Edit, Replace
from migrator.facts.wraps.evaluation_wraps import evaluation_wraps, removed
from migrator.facts.wraps.subclasses import class_tests, kept_class, own_way


def check(context: Context) -> Iterator[Diagnostic]:
    places = [test.at for test in context.program.type_tests]
    subclasses = [w for w in context.program.wraps if w.kind == "subclass"]
    kept = {w.name for w in subclasses if own_way(context.program, w.at) or kept_class(context.program, w.at)}
    for module, node in class_tests(context.program):
        if module.segment(node).rpartition(".")[2] not in kept:
            places.append(module.span(node))
    gone = (
        []
        if context.sharing.way == "call"
        else [removed(context.program, w) for w in evaluation_wraps(context.program)]
    )
    for at in places:
        if any(place.contains(at) for place in gone):
            continue
        edits: list[Edit] = []
        if context.sharing.way == "call":
            edits += [context.helper(at, "SplitDataParallel"), Replace(at, "SplitDataParallel")]
        else:
            edits += [
                AddImport(at, "from torch.nn.parallel import DistributedDataParallel"),
                Replace(at, "DistributedDataParallel"),
            ]
        yield RULE.converted(at, "the wrapped model is of this class now", *edits)


RULE = Rule(
    "MG304", "type-tests", check, __doc__ or "", hazards=("H49",), keeps=("compatibility",), needs=("MG301", "MG302")
)
