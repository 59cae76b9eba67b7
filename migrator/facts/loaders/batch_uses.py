"""Second uses of the batch size, which would mean the size of one process's batches.

In: a `Reader` that knows the loaders.  Out: its obstacles.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from migrator.facts.loaders.batch_loops import BatchLoop
from migrator.facts.loaders.loaders import DATA_LOADER
from migrator.facts.model import Place
from migrator.facts.python.nodes import argument, dotted
from migrator.facts.python.scopes import Scope
from migrator.facts.python.syntax import Module, Span
from migrator.facts.training.reader import Reader, in_message, is_at
from migrator.facts.training.training import Loader

_RATE = re.compile(r"(^|[._])(base_)?lr$|learning_rate|warm", re.IGNORECASE)


def check_batch_uses(reader: Reader, module: Module, loop: BatchLoop) -> None:
    """Second uses of the batch size that mean the size of this process's batches."""
    for loader in reader.training.loaders:
        _check_batch_text(reader, loader)
    places = {loader.at for loader in reader.training.loaders}
    for owner in reader.program.modules:
        for node in owner.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "batch_size" and not in_message(owner, node):
                if any(is_at(value, places) for value in reader.resolver.values(owner, node.value)):
                    reader.obstacle(owner, node, f"{owner.segment(node)} would be the size of this process's batches")
            if isinstance(node, ast.Call) and dotted(node.func) == "len" and not in_message(owner, node):
                _check_sampler_length(reader, owner, node, places)


def _check_sampler_length(reader: Reader, module: Module, node: ast.Call, places: set[Span]) -> None:
    """`len(loader.sampler)`: the samples of an epoch, of which each process's own sampler has a share."""
    asked = node.args[0] if node.args else node
    if not isinstance(asked, ast.Attribute) or asked.attr != "sampler":
        return
    values = reader.resolver.values(module, asked.value)
    if not any(is_at(value, places) for value in values):
        return
    own = {argument(value.node, "batch_sampler", 4) is not None for value in values if isinstance(value.node, ast.Call)}
    if len(own) == 1 and all(is_at(value, places) for value in values):
        note = "batches of the program's own" if own.pop() else ""
        place = Place(module.span(asked), module.span(module.statement(asked)), module.segment(asked.value), note)
        reader.training.sampler_lengths.append(place)
    else:
        reader.obstacle(module, node, f"{module.segment(node)} would be that of this process's share")


def _check_batch_text(reader: Reader, loader: Loader) -> None:
    if not re.fullmatch(r"[A-Za-z_][\w.]*", loader.batch_text):
        return
    module = reader.program.module_at(loader.at)
    node = next(n for n in module.nodes if isinstance(n, ast.expr) and module.span(n) == loader.batch)
    for text, scope in _same_value(reader, module, node, 0):
        attribute = text.rpartition(".")[2]
        for owner in reader.program.modules:
            for use in owner.nodes:
                if not isinstance(use, ast.Name | ast.Attribute) or not isinstance(use.ctx, ast.Load):
                    continue
                if isinstance(use, ast.Name):
                    found = owner.lookup(use.id, owner.scope_of.get(use, owner.scope)) if use.id == text else None
                    if found is None or found[0] is not scope:
                        continue
                elif scope is not None or use.attr != attribute:
                    continue
                if not _is_behind_the_call(reader, owner, use) and not _is_global_use(reader, owner, use):
                    reader.obstacle(owner, use, f"{dotted(use)} is also used for something else than loading")


def _is_behind_the_call(reader: Reader, module: Module, node: ast.AST) -> bool:
    """True where a step goes on with the whole batch, whose size this is."""
    whole = reader.training.whole
    if whole is None or module.path != whole.call.path:
        return False
    scope = module.scope_of.get(node)
    call = next(n for n in module.nodes if isinstance(n, ast.Call) and module.span(n) == whole.call)
    return scope is module.scope_of.get(call) and module.span(node).start > whole.call.end


def _same_value(reader: Reader, module: Module, node: ast.expr, depth: int) -> Iterator[tuple[str, Scope | None]]:
    """Spellings of the same number: the name, what it was assigned from, and what calls passed for it."""
    text = dotted(node)
    if text is None or depth > 3:
        return
    if not isinstance(node, ast.Name):
        yield text, None
        return
    found = module.lookup(node.id, module.scope_of.get(node, module.scope))
    yield text, found[0] if found else None
    for binding in found[1] if found else []:
        made = _number(binding.value) if binding.kind == "assign" else None
        if isinstance(made, ast.Name | ast.Attribute):
            yield from _same_value(reader, module, made, depth + 1)
        elif binding.kind == "param" and found is not None:
            bound = found[0].parent is not None and found[0].parent.is_class
            for caller, call in reader.resolver.call_sites(found[0].node):
                position = binding.path[0] - (1 if bound else 0) if binding.path else None
                given = argument(call, binding.target, position)
                if isinstance(given, ast.Name | ast.Attribute):
                    yield from _same_value(reader, caller, given, depth + 1)


def _number(value: ast.AST | None) -> ast.AST | None:
    """What stands in `int(...)`, or the value itself."""
    whole = isinstance(value, ast.Call) and dotted(value.func) == "int" and len(value.args) == 1
    return value.args[0] if isinstance(value, ast.Call) and whole else value


def _passed_on(reader: Reader, module: Module, node: ast.AST) -> tuple[Module, list[ast.AST]] | None:
    """Where a function of the project uses the parameter that it is given this value for."""
    parent = module.parents.get(node)
    keyword = parent.arg if isinstance(parent, ast.keyword) else None
    call = module.parents.get(parent) if isinstance(parent, ast.keyword) else parent
    if not isinstance(call, ast.Call) or call.func is node:
        return None
    callee = reader.resolver.callee(module, call)
    if callee is None or not isinstance(callee[1], ast.FunctionDef):
        return None
    owner, function = callee[0], callee[1]
    names = [a.arg for a in [*function.args.posonlyargs, *function.args.args]]
    bound = owner.scopes[function].self_name is not None
    if keyword is None:
        position = next((i for i, a in enumerate(call.args) if a is node), len(names)) + (1 if bound else 0)
        keyword = names[position] if position < len(names) else None
    uses: list[ast.AST] = [
        n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == keyword and isinstance(n.ctx, ast.Load)
    ]
    return owner, uses


def _is_global_use(reader: Reader, module: Module, node: ast.AST, depth: int = 0) -> bool:
    """Uses for which the size of the whole batch is the right one: loaders, arithmetic with lengths, text."""
    passed = _passed_on(reader, module, node)
    if passed is not None:
        owner, uses = passed
        return depth < 4 and all(_is_global_use(reader, owner, use, depth + 1) for use in uses)
    for ancestor in module.ancestors(node):
        if isinstance(ancestor, ast.Call):
            name = reader.program.external(module, ancestor)
            if name in DATA_LOADER or name.rpartition(".")[2] in (
                "print",
                "format",
                "str",
                "DataLoader",
                "info",
                "join",
            ):
                return True
            if isinstance(ancestor.func, ast.Attribute) and ancestor.func.attr in (
                "format",
                "info",
                "add_argument",
                "write",
            ):
                return True
        if isinstance(ancestor, ast.JoinedStr):
            return True
        if isinstance(ancestor, ast.Compare) and all(isinstance(c, ast.Constant) for c in ancestor.comparators):
            return True
        if isinstance(ancestor, ast.keyword) and _RATE.search(ancestor.arg or ""):
            return True
        if isinstance(ancestor, ast.Assign) and all(_RATE.search(dotted(t) or "") for t in ancestor.targets):
            return True
        if isinstance(ancestor, ast.BinOp):
            if isinstance(ancestor.op, ast.Mod) and isinstance(ancestor.left, ast.Constant | ast.JoinedStr):
                return True
            other = ancestor.left if node in set(ast.walk(ancestor.right)) else ancestor.right
            if any(isinstance(n, ast.Call) and dotted(n.func) == "len" for n in ast.walk(other)):
                return True
        if isinstance(ancestor, ast.stmt):
            return isinstance(ancestor, ast.Assign) and (
                _keeps_name(ancestor, node) or _names_batch(reader, ancestor, node)
            )
    return False


def _names_batch(reader: Reader, node: ast.Assign, value: ast.AST) -> bool:
    """`size = int(config.size)`, under whose name a loader is given it."""
    batches = {loader.batch_text for loader in reader.training.loaders}
    return _number(node.value) is value and len(node.targets) == 1 and dotted(node.targets[0]) in batches


def _keeps_name(node: ast.Assign, value: ast.AST) -> bool:
    """`x.size = x.size`, or one of several such: `epochs, size = config.epochs, config.size`."""
    if len(node.targets) != 1:
        return False
    target, name = node.targets[0], dotted(value) or ""
    if not isinstance(target, ast.Tuple):
        return dotted(target) == name
    given = node.value.elts if isinstance(node.value, ast.Tuple) else []
    pairs = zip(target.elts, given, strict=False)
    return any(one is value and dotted(to) == name.rpartition(".")[2] for to, one in pairs)
