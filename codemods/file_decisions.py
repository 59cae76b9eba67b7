"""A decision about a file that the program makes itself is rank 0's.

Between two processes that ask whether a folder is there, one of them may have made it: the second would take the other branch,
leave the program or wait for an answer that nobody gives.  Rank 0 asks, and all go the same way.
"""

import ast
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.alone import run_by_one
from migrator.facts.syntax import Module, Span, dotted
from migrator.facts.uniform import waits_for_all

_ASKS = frozenset(["os.path.exists", "os.path.isdir", "os.path.isfile", "os.path.lexists"])
_METHODS = frozenset(["exists", "is_dir", "is_file"])
_MAKES = ("folder", "path_mkdir", "write", "open", "download")
_ENDS = ("sys.exit", "exit", "quit", "os._exit", "input")


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    made = {e.path_text or program.text(e.at).partition(".mkdir")[0] for e in program.effects if e.kind in _MAKES}
    alone: list[Span] = []
    for module in program.modules:
        for node in module.nodes:
            if not isinstance(node, ast.If) or not _divides(node):
                continue
            for call in ast.walk(node.test):
                if not isinstance(call, ast.Call) or _asked_about(context, module, call) not in made:
                    continue
                if _is_settled(module, call):
                    continue
                alone = alone or run_by_one(program)
                at = module.span(call)
                if any(place.contains(at) for place in alone):
                    continue
                if not waits_for_all(program, module.span(node)):
                    yield RULE.note(at, "processes may decide differently: another one may just have made this file")
                    continue
                yield RULE.converted(
                    at,
                    "the program makes this itself, so rank 0 looks for all",
                    context.helper(at, "from_rank_zero"),
                    Replace(at, "from_rank_zero($0)", (at,)),
                )


def _asked_about(context: Context, module: Module, call: ast.Call) -> str | None:
    """The text of the path whose existence the call asks for."""
    name = context.program.external(module, call) or dotted(call.func) or ""
    if name in _ASKS and call.args:
        return module.segment(call.args[0])
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS and not call.args:
        return module.segment(call.func.value)
    return None


def _divides(node: ast.If) -> bool:
    """True when a branch leaves, or asks the user: what all processes must do, or none."""
    for part in (*node.body, *node.orelse):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Return | ast.Raise | ast.Break | ast.Continue):
                return True
            if isinstance(inner, ast.Call) and (dotted(inner.func) or "") in _ENDS:
                return True
    return False


def _is_settled(module: Module, call: ast.Call) -> bool:
    return any(isinstance(a, ast.Call) and dotted(a.func) == "from_rank_zero" for a in module.ancestors(call))


RULE = Rule("MG511", "file-decisions", check, __doc__ or "", hazards=("H87", "H93", "H95"))
