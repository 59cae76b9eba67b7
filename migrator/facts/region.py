"""Which statements of a notebook have to run in every process.

In: a notebook's program and the places of its edits.  Out: a `Region`.  A notebook cannot be started several times as a
script can: what all processes do goes into one function, which is launched.  The region begins at the first statement that
needs the processes or touches a GPU (a process that has used CUDA cannot be forked), and ends at the last one that needs
them or goes on with what they made.  What only defines, imports or shows stays where it is.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Sequence

from migrator.facts.model import Region
from migrator.facts.program import Program
from migrator.facts.python.nodes import dotted
from migrator.facts.python.syntax import Module, Span

_SHOWING = ("matplotlib.", "seaborn.", "plotly.", "IPython.", "bokeh.", "altair.")
_SHOWN = frozenset({"display", "plot", "show", "imshow", "hist", "scatter", "subplots", "figure", "legend"})
_CHOICES = frozenset(
    {"torch.device", "torch.cuda.is_available", "torch.cuda.device_count", "torch.cuda.get_device_name", "print", "str"}
    | {"torch.cuda.manual_seed", "torch.cuda.manual_seed_all"}
)
_DEFINES = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_STAYS = ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def find_region(program: Program, edits: Iterable[Span], direct: Collection[Span]) -> Region | None:
    """The region for edits at these places; `direct` are those of them that need the processes where they stand.

    The others (files, folders, downloads) happen once anyway in the notebook's own process.
    """
    module = program.entry_module
    body = module.tree.body
    places = list(edits)
    touched = _touched_names(program, places)
    needing = [
        index
        for index, statement in enumerate(body)
        if not stays(statement) and _needs(module, statement, touched, [p for p in places if p in direct])
    ]
    choices, chosen = [], set[str]()
    for index, statement in enumerate(body):
        picks = _chooses_device(module, statement) and not any(module.span(statement).contains(p) for p in places)
        if picks and (index in needing or reads(statement) & chosen):
            choices.append(index)
            chosen |= bound(statement)
        elif not stays(statement) and (index in needing or reads(statement) & chosen):
            needing = [i for i in needing if i >= index]
            needing = needing if needing[:1] == [index] else [index, *needing]
            break
    if not needing or needing[0] in choices:
        return None
    first, last = needing[0], needing[-1]
    choices = [index for index in choices if index < first]
    made = chosen | {name for statement in body[first : last + 1] if not stays(statement) for name in bound(statement)}
    for index in range(last + 1, len(body)):
        if not stays(body[index]) and not shows(module, body[index]) and reads(body[index]) & made:
            last = index
            made |= {n for s in body[first : last + 1] if not stays(s) for n in bound(s)}
    shown, left = [], []
    for index in range(first, len(body)):
        statement = body[index]
        if index not in needing and not stays(statement) and (shows(module, statement) or index > last):
            shown.append(module.span(statement))
            names = sorted(reads(statement) & made)
            left += [(module.span(statement), names[0])] if names else []
    return Region(
        module.span(body[first]),
        module.span(body[last]),
        tuple(module.span(body[i]) for i in choices),
        tuple(shown),
        tuple(left),
        tuple(module.span(statement) for statement in body if isinstance(statement, _DEFINES)),
    )


def stays(statement: ast.stmt) -> bool:
    """Definitions, imports, marks of cells and magics."""
    return isinstance(statement, _STAYS) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def shows(module: Module, statement: ast.stmt) -> bool:
    """True for what shows something in the notebook: a bare value, a plot."""
    if isinstance(statement, ast.Expr) and not isinstance(
        statement.value, ast.Call | ast.Await | ast.Yield | ast.NamedExpr
    ):
        return True
    for node in ast.walk(statement):
        if isinstance(node, ast.Call):
            name = module.qualified(node.func) or ""
            last = node.func.attr if isinstance(node.func, ast.Attribute) else name
            if name.startswith(_SHOWING) or last in _SHOWN:
                return True
    return False


def bound(statement: ast.stmt) -> set[str]:
    """Names that a statement binds at the top level."""
    if isinstance(statement, _DEFINES):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
    names: set[str] = set()
    stack: list[ast.AST] = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, _DEFINES):
            names.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= bound(node)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif not isinstance(node, ast.Lambda | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            stack.extend(ast.iter_child_nodes(node))
            if isinstance(node, ast.ExceptHandler) and node.name:
                names.add(node.name)
    return names


def reads(statement: ast.stmt) -> set[str]:
    """Names that a statement may read."""
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}


def _needs(module: Module, statement: ast.stmt, touched: frozenset[str], direct: Sequence[Span]) -> bool:
    whole = module.span(statement)
    return any(whole.contains(place) for place in direct) or bool(_mentioned(statement) & touched) or _on_gpu(statement)


def _touched_names(program: Program, edits: Sequence[Span]) -> frozenset[str]:
    """Names of functions and classes that hold an edit or use a GPU, also through others that they mention."""
    found: set[str] = set()
    uses: dict[str, set[str]] = {}
    for module in program.modules:
        here = [edit for edit in edits if edit.path == module.path]
        for node in module.tree.body:
            if isinstance(node, _DEFINES):
                uses.setdefault(node.name, set()).update(_mentioned(node))
                whole = module.span(node)
                if _on_gpu(node) or any(whole.contains(edit) for edit in here):
                    found.add(node.name)
    size = -1
    while size != len(found):
        size = len(found)
        found |= {name for name, names in uses.items() if names & found}
    return frozenset(found)


def _mentioned(node: ast.AST) -> set[str]:
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return names | {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)}


def _chooses_device(module: Module, statement: ast.stmt) -> bool:
    """`device = torch.device("cuda" if torch.cuda.is_available() else "cpu")`, seeds of GPUs, and prints of them."""
    if not isinstance(statement, ast.Assign | ast.Expr | ast.If):
        return False
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    return bool(calls) and all((module.qualified(call.func) or dotted(call.func)) in _CHOICES for call in calls)


def _on_gpu(node: ast.AST) -> bool:
    """`x.cuda()`, `torch.cuda.…` (but not its seeds, which wait until CUDA is used), `x.to(…)`, `torch.device(…)`."""
    seeds = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr.startswith("manual_seed")}
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and one.attr == "cuda" and id(one) not in seeds:
            return True
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Attribute) and one.func.attr in ("to", "device"):
            return True
    return False
