"""What the program counts as GPUs is the number of processes that share the batch.

`torch.cuda.device_count()` gave the number of replicas; under torchrun that is the world size, also when fewer processes
than GPUs are started, or none has a GPU.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace


def check(context: Context) -> Iterator[Diagnostic]:
    for count in context.program.device_counts:
        if count.note:
            yield RULE.converted(count.at, "the index of a GPU: the process's own", Replace(count.at, count.note))
            continue
        size, imports = context.world_size(count.at)
        if not context.accelerate and context.program.is_shared(count.at):
            dist, _ = context.dist(count.at)
            size = f"{size} if {dist}.is_initialized() else $0"
        yield RULE.converted(
            count.at,
            "the batch is shared by the processes, whose number this is",
            *imports,
            Replace(count.at, size, (count.at,)),
        )


RULE = Rule("MG303", "device-count", check, __doc__ or "", hazards=("H38",), keeps=("trajectory",))
