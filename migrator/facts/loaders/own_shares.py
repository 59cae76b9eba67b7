"""Where a program that knows of processes deals out data by its rank, although it ran as one process until now.

In: a `Program`.  Out: samplers that are made for a part of the data, and loops over every n-th sample, where nothing but the number of
processes decides about them.  As one process it had all of it.
"""

from __future__ import annotations

import ast
import re

from migrator.facts.model import Place
from migrator.facts.program import Program
from migrator.facts.python.syntax import Module

_FLAG = re.compile(r"dist|ddp|launcher|local_?rank|multi_?(gpu|process)|parallel", re.IGNORECASE)
_WORLD = re.compile(r"world_?size|num_?replicas|get_dist_info|is_initialized|get_rank", re.IGNORECASE)


def own_shares(program: Program) -> list[Place]:
    """Calls that give a process its part of the data; empty for a program that never asks for its rank."""
    if not any(program.external(m, c) == "torch.distributed.get_world_size" for m, c in program.calls()):
        return []
    return [
        Place(module.span(call), module.span(module.statement(call)), " ".join(module.segment(call).split()))
        for module, call in program.calls()
        if (_is_sharing_sampler(program, module, call) or _takes_every_nth(module, call))
        and not any(_is_flag(test) for test in program.tests_around(module.span(module.statement(call))))
    ]


def _is_flag(test: str) -> bool:
    """True for an option that asks for several processes: the program's own way, which stays off (see MG103)."""
    return _FLAG.search(_WORLD.sub("", test)) is not None


def _is_sharing_sampler(program: Program, module: Module, call: ast.Call) -> bool:
    if program.external(module, call).endswith(".DistributedSampler"):
        return True
    callee = program.resolver.callee(module, call)
    if callee is None or not isinstance(callee[1], ast.ClassDef):
        return False
    made = program.resolver.method(callee[0], callee[1], "__init__")
    if made is None or not isinstance(made[1], ast.FunctionDef):
        return False
    bases = program.resolver.external_bases(callee[0], callee[1])
    names = {a.arg for a in (*made[1].args.args, *made[1].args.kwonlyargs)}
    return "num_replicas" in names and any("Sampler" in base for base in bases) and bool(call.args or call.keywords)


def _takes_every_nth(module: Module, call: ast.Call) -> bool:
    """`range(rank, len(data), world_size)`."""
    return module.qualified(call.func) == "range" and len(call.args) == 3 and _names_processes(module, call.args[2])


def _names_processes(module: Module, step: ast.expr) -> bool:
    return _WORLD.search(module.segment(step)) is not None
