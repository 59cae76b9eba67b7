"""Checkpoints do not depend on the number of processes, and old ones load.

The keys of a prepared model's weights have "module." in front over several processes and not in one.  New checkpoints hold
the keys of the network itself (`--keep-prefix`: those that DataParallel wrote); reading takes both.
"""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule
from codemods.checkpoints.reading import bare_argument
from migrator.edits import Replace
from migrator.facts.accelerate.bare import keyed_calls


def check(context: Context) -> Iterator[Diagnostic]:
    if not context.accelerate or context.sharing.way not in ("distributed", "batch"):
        return
    told = False
    for call in keyed_calls(context.program):
        unwrap, imports = context.unwrapped(call.at)
        bare = Replace(call.model, f"{unwrap}($0)", (call.model,))
        if call.kind == "load_state_dict":
            yield RULE.converted(
                call.at, "old checkpoints load as well as new ones", *imports, bare, *bare_argument(context, call)
            )
        elif call.saved and not context.options.keep_prefix:
            yield RULE.converted(call.at, "the network's own keys, whatever the number of processes", *imports, bare)
            if not told:
                told = True
                yield RULE.note(
                    call.at,
                    'new checkpoints have no "module." in their keys, as intended (--keep-prefix writes it); both kinds load.'
                    " The program's own files are kept; accelerator.save_state(FOLDER), called by all processes, would also"
                    " hold the random states of each",
                )
        else:
            reason = (
                "the keys that DataParallel's checkpoints have" if call.saved else "the keys that the program expects"
            )
            whole = Replace(call.at, "with_module_prefix($0)", (call.at,))
            yield RULE.converted(call.at, reason, *imports, bare, context.helper(call.at, "with_module_prefix"), whole)


RULE = Rule(
    "MG611", "bare-keys", check, __doc__ or "", hazards=("H96", "H115"), keeps=("compatibility",), needs=("MG108",)
)
