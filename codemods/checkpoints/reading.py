"""What is loaded into a model, with the keys of the network itself.

In: a call of `load_state_dict`.  Out: edits that take the wrapper's "module." out of the keys, wherever DataParallel put it.
"""

from __future__ import annotations

from codemods.base import Context
from migrator.edits import Edit, SetArgument
from migrator.facts.bare import KeyedCall


def bare_argument(context: Context, call: KeyedCall) -> tuple[Edit, ...]:
    if call.argument is None:
        return ()
    text, helpers = "$0", {part.part: "bare_keys" for part in context.program.parts.values()}
    for part, name in helpers.items():
        text = f'{name}({text}, "{part}")'
    if not helpers:
        text, helpers = "without_module_prefix($0)", {"": "without_module_prefix"}
    wanted = (context.helper(call.at, name) for name in dict.fromkeys(helpers.values()))
    return (*wanted, SetArgument(call.at, "state_dict", text, 0, holes=(call.argument,)))
