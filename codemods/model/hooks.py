"""What looks into the model sees this process's share of the batch.

A forward hook ran once per GPU under DataParallel; now it runs once in each process, on that process's samples, so what it
collects covers one share.  A compiled model is left as it is, inside the wrapper; the keys of its checkpoints stay the same.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.networks.forward import model_classes

_HOOKS = frozenset(
    ["register_forward_hook", "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook"]
)


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    inside = [module.span(node) for module, node in model_classes(program)]
    for module, call in program.calls():
        at = module.span(call)
        if program.external(module, call) == "torch.compile":
            yield RULE.note(at, "the compiled model is wrapped as it is; its first steps compile in every process")
        elif module.segment(call.func).rpartition(".")[2] in _HOOKS:
            if not any(place.contains(at) for place in inside):
                yield RULE.note(
                    at,
                    "the hook ran once per GPU; now it runs once in each process, and rank 0's sees its own share only",
                )


RULE = Rule("MG316", "hooks", check, __doc__ or "", applicability="display-only", hazards=("H64",))
