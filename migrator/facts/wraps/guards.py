"""What a condition around a wrap asks for.

In: a guard of a wrap.  Out: whether a run on GPUs can pass the wrap by.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.model import GuardFact
from migrator.facts.program import Program
from migrator.facts.python.syntax import Span

_CUDA_ONLY = re.compile(r"^device$|cuda|use_gpu|device_count|isinstance", re.IGNORECASE)


def leaves_bare(program: Program, guard: GuardFact) -> bool:
    """True when a flag can keep a program on GPUs from wrapping its model."""
    if not guard.parallel or _asks_for_gpus(guard.test) or _counts_devices(program, guard):  # of processes now
        return False
    if guard.orelse:
        return not guard.wraps_elsewhere and not any(guard.at.contains(ddp.at) for ddp in program.existing_ddp)
    return True


def whole_choice(program: Program, guard: GuardFact) -> Span:
    """The whole `if` of which a guard is an `elif`, or the guard itself."""
    module = program.module_at(guard.at)
    node: ast.AST | None = module.statement_at(guard.at)
    while node is not None:
        outer = module.parents.get(node)
        if not isinstance(outer, ast.If) or not module.text.startswith("elif", module.span(node).start):
            return module.span(node)
        node = outer
    return guard.at


def _asks_for_gpus(test: str) -> bool:
    """True when every part of a condition holds on any machine with GPUs."""
    return all(_CUDA_ONLY.search(part) for part in test.split(" and "))


def _counts_devices(program: Program, guard: GuardFact) -> bool:
    """True when a name in the test holds the number of GPUs."""
    module = program.module_at(guard.at)
    node = module.statement_at(guard.at)
    return isinstance(node, ast.If) and any(
        value.name == "torch.cuda.device_count"
        for name in ast.walk(node.test)
        if isinstance(name, ast.Name | ast.Attribute)
        for value in program.resolver.values(module, name)
    )
