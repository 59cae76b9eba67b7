"""What the training is made of is found in the program, or it is said what was looked for.

A loader that comes from a plug-in, or an optimizer that a library makes, cannot be seen in the text.  The conversion then takes the
way that needs to know the least, and says where a word of the user would help: `--train-loader MODULE.NAME` for what a loop
reads, `--model-name NAME` for a wrapped model that is called under a name which leads nowhere.  A function that is not in sight and
is given an optimizer is asked about: it trains, and nobody has seen what else it does.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.facts.links import is_called, links

_HELP = {
    "loader": "; say with --train-loader MODULE.NAME which variable or function gives it",
    "model": "; every class of the program is read in its place",
    "optimizer": "; it is used as it is",
}


def check(context: Context) -> Iterator[Diagnostic]:
    program = context.program
    for link in links(program):
        if link.state == "unresolved":
            yield RULE.note(
                link.at,
                f"the {link.role} behind `{link.text}` is not in sight, {link.missing} was looked for{_HELP[link.role]}",
            )
    if program.wraps:
        for module, call in program.optimizers_given_away:
            yield RULE.question(
                module.span(call),
                f"{module.segment(call.func)} trains with an optimizer and is not in sight: what it writes, every process"
                " would write. If it is the project's, set PYTHONPATH as for a run, and convert again",
            )
    for wrap in program.wraps:
        if wrap.kind != "functional" and wrap.target and not is_called(program, wrap):
            yield RULE.note(
                wrap.at,
                "no call of this wrapped model was found; say with --model-name NAME under which name it is called",
            )


RULE = Rule("MG905", "unresolved", check, __doc__ or "", applicability="display-only")
