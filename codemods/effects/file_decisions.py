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
from migrator.facts.made_files import asked_about, is_made, whole_question
from migrator.facts.program import Program
from migrator.facts.syntax import Module, Span, dotted
from migrator.facts.uniform import waits_for_all

_DRAWS = ("torch.rand", "torch.utils.data.random_split", "torch.normal", "numpy.random.", "random.")
_ENDS = ("sys.exit", "exit", "quit", "os._exit", "input")


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    alone: list[Span] = []
    answered: list[Span] = []
    for module in program.modules:
        for node in module.nodes:
            if not isinstance(node, ast.If):
                continue
            for call in ast.walk(node.test):
                if not isinstance(call, ast.Call) or _is_settled(module, call):
                    continue
                asked = asked_about(program, module, call)
                if asked is None:
                    continue
                cache = is_cache(program, module, node, asked)
                if not cache and not (_divides(program, module, node) and is_made(program, module, node, asked)):
                    continue
                if not cache and _is_made_before(program, module, node, asked):
                    continue
                alone = alone or run_by_one(program)
                at = whole_question(program, module, call, asked)
                if any(other.contains(at) for other in answered):
                    continue
                if any(place.contains(at) and not (cache and place == module.span(node)) for place in alone):
                    continue
                if not waits_for_all(program, module.span(node)):
                    yield RULE.note(at, "processes may decide differently: another one may just have made this file")
                    continue
                answered.append(at)
                yield RULE.converted(
                    at,
                    "one process writes this cache, so rank 0 looks for all: nobody reads the half that is written"
                    if cache
                    else "the program makes this itself, so rank 0 looks for all",
                    context.helper(at, "from_rank_zero"),
                    Replace(at, "from_rank_zero($0)", (at,)),
                )


def _is_made_before(program: Program, module: Module, node: ast.If, asked: str) -> bool:
    """True when each process has made the folder itself on its way to the test."""
    scope, start = module.scope_of.get(node, module.scope).name, module.span(node).start
    makers = [e for e in program.effects if e.path_text == asked and e.at.path == module.path]
    if asked.isidentifier() and asked not in module.scope.bindings:
        makers = [e for e in makers if e.scope == scope]
    return bool(makers) and all(e.kind == "folder" and e.scope == scope and e.at.end <= start for e in makers)


def _divides(program: Program, module: Module, node: ast.If) -> bool:
    """True when a branch leaves, asks the user or draws random numbers: what all processes must do, or none."""
    handled = {
        n for h in ast.walk(node) if isinstance(h, ast.ExceptHandler) for n in ast.walk(h)
    }  # goes on, or ends all
    for part in (*node.body, *node.orelse):
        for inner in ast.walk(part):
            if isinstance(inner, ast.Return | ast.Raise | ast.Break | ast.Continue) and inner not in handled:
                return True
            if isinstance(inner, ast.Call):
                name = program.external(module, inner)
                if (dotted(inner.func) or "") in _ENDS or name.startswith(_DRAWS):
                    return True
    return False


def _is_settled(module: Module, call: ast.Call) -> bool:
    return any(isinstance(a, ast.Call) and dotted(a.func) == "from_rank_zero" for a in module.ancestors(call))


RULE = Rule("MG511", "file-decisions", check, __doc__ or "", hazards=("H87", "H93", "H95"), keeps=("lock-step",))
