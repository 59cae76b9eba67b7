"""Progress is shown once.

Bars are drawn on standard error, where those of several processes overwrite each other.  On other processes than rank 0 they
are off; what they iterate over stays the same.
"""

import re
from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule, negated
from migrator.edits import SetArgument
from migrator.facts.python.nodes import has_unpacking

_BARS = re.compile(r"^tqdm(\.\w+)?\.(tqdm|trange|tqdm_notebook|tnrange)$")


def check(context: Context) -> Iterator[Diagnostic]:
    for module, call in context.program.calls():
        if not _BARS.match(context.program.external(module, call)) or has_unpacking(call):
            continue
        if any(keyword.arg == "disable" for keyword in call.keywords):
            continue
        at = module.span(call)
        test, imports = context.is_rank_zero(at)
        yield RULE.converted(at, "one process shows the progress", *imports, SetArgument(at, "disable", negated(test)))


RULE = Rule("MG509", "progress-bars", check, __doc__ or "", hazards=("H91",), keeps=("once",))
