"""Log lines come from one process.

What goes through `logging` reaches the terminal of every process; processes other than rank 0 pass on errors only.
"""

from collections.abc import Iterator
from textwrap import indent

from codemods.base import Context, Diagnostic, Rule, negated
from migrator.edits import InsertBefore


def check(context: Context) -> Iterator[Diagnostic]:
    entry = context.program.entry
    if not context.program.logs or entry.first is None or context.program.is_joined:
        return
    module = context.program.entry_module
    if any(b.kind != "import" for scope in module.scopes.values() for b in scope.bindings.get("logging", ())):
        yield RULE.note(entry.first, "every process writes its log lines to the terminal")
        return
    test, imports = context.is_rank_zero(entry.first)
    logging, more = context.module(entry.first, "logging")
    quiet = f"if {negated(test)}:\n    {logging}.disable({logging}.WARNING)\n"
    if entry.kind == "early":
        quiet = f'if __name__ == "__main__":\n{indent(quiet, "    ")}'
    yield RULE.converted(
        entry.first,
        "one process writes the log lines; the others only report errors",
        *imports,
        *more,
        InsertBefore(entry.first, quiet),
    )


RULE = Rule("MG508", "other-logs", check, __doc__ or "", hazards=("H91",), keeps=("once",))
