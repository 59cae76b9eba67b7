"""What is loaded into a model, with the keys of the network itself.

In: a call of `load_state_dict`.  Out: edits that take the wrapper's "module." out of the keys, wherever DataParallel put it.
"""

from __future__ import annotations

from collections.abc import Sequence

from codemods.base import Context
from migrator.edits import Edit, SetArgument
from migrator.facts.accelerate.bare import KeyedCall


def bare_argument(context: Context, call: KeyedCall, parts: Sequence[str] = ()) -> tuple[Edit, ...]:
    """`parts` are names of parts that were wrapped, where it was not the whole model."""
    parts = parts or list(dict.fromkeys(part.part for part in context.program.parts.values()))
    if call.argument is None:
        return ()
    helper, text = ("bare_keys", "$0") if parts else ("without_module_prefix", "without_module_prefix($0)")
    for part in parts:
        text = f'bare_keys({text}, "{part}")'
    return context.helper(call.at, helper), SetArgument(call.at, "state_dict", text, 0, holes=(call.argument,))
