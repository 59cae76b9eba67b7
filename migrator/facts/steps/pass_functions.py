"""Functions of the program that run a forward pass of a wrapped network with gradients, or a backward pass."""

from __future__ import annotations

import ast

from migrator.facts.program import Program
from migrator.facts.python.nodes import FunctionNode, walk
from migrator.facts.python.syntax import Module

NO_GRAD = frozenset(
    ["torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad", "torch.autograd.grad_mode.no_grad"]
)
NO_FORWARD = frozenset(["train", "eval", "state_dict", "zero_grad"])


def goes_back(program: Program, module: Module, function: ast.AST, depth: int) -> bool:
    """True where a function calls `backward`, or runs a wrapped network with gradients."""
    inside = [n for n in walk(function) if isinstance(n, ast.Call)]
    if any(isinstance(n.func, ast.Attribute) and n.func.attr == "backward" for n in inside):
        return True
    if not _is_without_gradient(program, module, function) and any(_is_forward(program, module, n) for n in inside):
        return True
    for call in inside if depth else ():
        callee = program.resolver.callee(module, call)
        if callee is not None and isinstance(callee[1], ast.FunctionDef) and callee[1] is not function:
            if goes_back(program, *callee, depth - 1):
                return True
    return False


def _is_forward(program: Program, module: Module, call: ast.Call) -> bool:
    func = call.func
    if isinstance(func, ast.Attribute) and func.attr in NO_FORWARD:
        return False
    return program.is_wrapped(module, func)


def _is_without_gradient(program: Program, module: Module, function: ast.AST) -> bool:
    """True where all forward passes of a function stand under `no_grad`."""
    decorators = [d.func if isinstance(d, ast.Call) else d for d in getattr(function, "decorator_list", ())]
    if any(module.qualified(decorator) in NO_GRAD for decorator in decorators):
        return True
    calls = [n for n in walk(function) if isinstance(n, ast.Call) and _is_forward(program, module, n)]
    return all(_under_no_grad(program, module, call) for call in calls)


def _under_no_grad(program: Program, module: Module, node: ast.AST) -> bool:
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, FunctionNode):
            return False
        if isinstance(ancestor, ast.With):
            calls = [item.context_expr for item in ancestor.items if isinstance(item.context_expr, ast.Call)]
            if any(program.external(module, call) in NO_GRAD for call in calls):
                return True
    return False
