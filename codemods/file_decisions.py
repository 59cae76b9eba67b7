"""A decision about a file that the program makes itself is rank 0's.

Between two processes that ask whether a folder is there, one of them may have made it: the second would take the other branch,
leave the program or wait for an answer that nobody gives.  Of a cache it would read the half that is written.  Rank 0 asks, and
all go the same way.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.alone import run_by_one
from migrator.facts.caches import is_cache
from migrator.facts.program import Program
from migrator.facts.syntax import Module, Span, dotted
from migrator.facts.uniform import waits_for_all

_ASKS = frozenset(["os.path.exists", "os.path.isdir", "os.path.isfile", "os.path.lexists"])
_METHODS = frozenset(["exists", "is_dir", "is_file"])
_MAKES = ("folder", "path_mkdir", "write", "open", "download")
_DRAWS = ("torch.rand", "torch.utils.data.random_split", "torch.normal", "numpy.random.", "random.")
_ENDS = ("sys.exit", "exit", "quit", "os._exit", "input")


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    made = _made(program)
    alone: list[Span] = []
    for module in program.modules:
        for node in module.nodes:
            if not isinstance(node, ast.If):
                continue
            for call in ast.walk(node.test):
                if not isinstance(call, ast.Call) or _is_settled(module, call):
                    continue
                asked = _asked_about(context, module, call)
                if asked is None:
                    continue
                cache = is_cache(program, module, node, asked)
                if not cache and not (_divides(program, module, node) and _is_made(module, node, asked, made)):
                    continue
                if not cache and _is_made_before(program, module, node, asked):
                    continue
                alone = alone or run_by_one(program)
                at = module.span(call)
                if any(place.contains(at) and not (cache and place == module.span(node)) for place in alone):
                    continue
                if not waits_for_all(program, module.span(node)):
                    yield RULE.note(at, "processes may decide differently: another one may just have made this file")
                    continue
                yield RULE.converted(
                    at,
                    "one process writes this cache, so rank 0 looks for all: nobody reads the half that is written"
                    if cache
                    else "the program makes this itself, so rank 0 looks for all",
                    context.helper(at, "from_rank_zero"),
                    Replace(at, "from_rank_zero($0)", (at,)),
                )


def _made(program: Program) -> set[tuple[str, str, str]]:
    """The files and folders that the program makes: the text of the path, and the module and function that make it."""
    made = [e for e in program.effects if e.kind in _MAKES]
    return {(e.path_text or program.text(e.at).partition(".mkdir")[0], e.at.path, e.scope) for e in made}


def _is_made(module: Module, node: ast.AST, asked: str, made: set[tuple[str, str, str]]) -> bool:
    """True when the path is one of them; a bare name is the same one in its function, or where it is the module's."""
    if not asked.isidentifier():
        return any(text == asked for text, _, _ in made)
    own = module.scope_of.get(node, module.scope).name
    is_global = asked in module.scope.bindings
    return any(text == asked and path == module.path and (is_global or own == scope) for text, path, scope in made)


def _asked_about(context: Context, module: Module, call: ast.Call) -> str | None:
    """The text of the path whose existence the call asks for."""
    name = context.program.external(module, call) or dotted(call.func) or ""
    if name in _ASKS and call.args:
        return module.segment(call.args[0])
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS and not call.args:
        return module.segment(call.func.value)
    return None


def _is_made_before(program: Program, module: Module, node: ast.If, asked: str) -> bool:
    """True when each process has made the folder itself on its way to the test."""
    scope, start = module.scope_of.get(node, module.scope).name, module.span(node).start
    makers = [e for e in program.effects if e.path_text == asked and e.at.path == module.path]
    return bool(makers) and all(e.kind == "folder" and e.scope == scope and e.at.end <= start for e in makers)


def _divides(program: Program, module: Module, node: ast.If) -> bool:
    """True when a branch leaves, asks the user or draws random numbers: what all processes must do, or none."""
    for part in (*node.body, *node.orelse):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Return | ast.Raise | ast.Break | ast.Continue):
                return True
            if isinstance(inner, ast.Call):
                name = program.external(module, inner)
                if (dotted(inner.func) or "") in _ENDS or name.startswith(_DRAWS):
                    return True
    return False


def _is_settled(module: Module, call: ast.Call) -> bool:
    return any(isinstance(a, ast.Call) and dotted(a.func) == "from_rank_zero" for a in module.ancestors(call))


RULE = Rule("MG511", "file-decisions", check, __doc__ or "", hazards=("H87", "H93", "H95"), keeps=("lock-step",))
