"""Where the processes meet is said by the launcher, and by nobody else.

torchrun gives every process its rank, the number of processes and a port that is free.  A program that sets these variables
itself, before the processes have met, sends them to a port at which nobody waits.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Remove

_NAMES = frozenset(["MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK"])


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    for module in program.modules:
        for node in module.nodes:
            if not isinstance(node, ast.Assign) or len(node.targets) != 1:
                continue
            target = node.targets[0]
            if not isinstance(target, ast.Subscript) or module.qualified(target.value) != "os.environ":
                continue
            if not isinstance(target.slice, ast.Constant) or target.slice.value not in _NAMES:
                continue
            at = module.span(node)
            if program.tests_around(at):
                continue  # belongs to a branch of the program's own, which stays behind its test
            yield RULE.converted(
                at, "the launcher says where and how many the processes are", Remove(module.emptied_by(at))
            )


RULE = Rule("MG106", "own-rendezvous", check, __doc__ or "", hazards=("H82",), keeps=("lock-step",))
