"""A question to the user is asked once, and every process gets the answer.

Only the launching terminal can answer; a prompt on every process would wait for ever or fail without a terminal.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from migrator.edits import Replace
from migrator.facts.wraps.subclasses import is_mentioned


def check(context: Context) -> Iterator[Diagnostic]:
    for effect in context.program.effects:
        if effect.kind != "prompt":
            continue
        if effect.name in ("input", "raw_input"):
            test, imports = context.is_rank_zero(effect.at)
            yield RULE.converted(
                effect.at,
                "one process asks, and all get the answer",
                *imports,
                context.helper(effect.at, "from_rank_zero"),
                Replace(effect.at, f"from_rank_zero($0 if {test} else None)", (effect.at,)),
            )
        elif is_mentioned(context.program, effect.at):
            yield RULE.question(
                effect.at, f"{effect.name}() would stop every process: remove it before training on several"
            )
        else:
            yield RULE.note(effect.at, f"{effect.name}() would stop every process, if this program ever called it")


RULE = Rule("MG505", "prompts", check, __doc__ or "", hazards=("H87",), keeps=("lock-step",))
