"""Wrappers of a program that are no wraps: distributed ones that are there already, things named alike, and tests of types."""

from __future__ import annotations

import ast
import re

from migrator.facts.code import Code
from migrator.facts.model import LookAlike, Place
from migrator.facts.processes.converted import is_split_wrapper
from migrator.facts.python.nodes import called_name
from migrator.facts.wraps.wrap_calls import WrapCalls
from migrator.facts.wraps.wrapper_names import DATA_PARALLEL, DISTRIBUTED

_NAMED_ALIKE = re.compile(r"(?!__)\w*(DataParallel\w*|data_parallel)")


def existing_ddp(code: Code, starts: bool) -> list[Place]:
    """Calls that already wrap with DistributedDataParallel or start a process group, where the program may get to.

    `starts` is false for a file that only defines things, of which nothing is called yet.
    """
    places = []
    for module, call in code.calls():
        if starts and code.is_unreached(module, call):
            continue
        name = code.external(module, call)
        if (
            name in DISTRIBUTED
            or name == "torch.distributed.init_process_group"
            or name.endswith(".DistributedDataParallel")
        ):
            places.append(code.place(module, call, name.rpartition(".")[2]))
    return places


def look_alikes(code: Code, calls: WrapCalls) -> list[LookAlike]:
    """Calls of things named like DataParallel that are not torch's."""
    found = []
    for module, call in code.calls():
        tail = called_name(call)
        if not _NAMED_ALIKE.fullmatch(tail) or "Distributed" in tail or call in calls.nodes:
            continue
        name = code.external(module, call)
        if name in DISTRIBUTED or name in DATA_PARALLEL:  # torch's own, made to be saved: no wrap, nor a look-alike
            continue
        callee = code.resolver.callee(module, call)
        if callee is not None and isinstance(callee[1], ast.ClassDef) and is_split_wrapper(callee[1]):
            continue
        if callee is not None and any(n in calls.nodes for n in ast.walk(callee[1])):
            continue  # a function that wraps: what is inside it is converted or reported
        where = (
            f"defined in {callee[0].path}"
            if callee is not None
            else f"imported as {name}"
            if name
            else "of unknown origin"
        )
        found.append(LookAlike(module.span(call), tail, where))
    return found


def type_tests(code: Code) -> list[Place]:
    """Names of DataParallel used as a class: in `isinstance`, in comparisons of types."""
    found = []
    for module in code.modules:
        if "DataParallel" not in module.text:
            continue
        for node in module.nodes:
            if (
                not isinstance(node, ast.Name | ast.Attribute)
                or code.resolver.external_name(module, node) not in DATA_PARALLEL
                or code.is_other_main(module, node)
            ):
                continue
            parent = module.parents.get(node)
            if isinstance(parent, ast.Call) and parent.func is node:
                continue
            if isinstance(parent, ast.Attribute | ast.ClassDef | ast.alias):
                continue
            found.append(code.place(module, node))
    return found
