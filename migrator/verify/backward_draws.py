"""Random numbers that a program's own autograd functions draw in their backward pass (Shake-Shake, straight-through noise).

In: the session.  Out: each backward of such a function draws from a stream of (forward, replica, place in the forward), so that
replica r of the original and rank r draw alike; the program's generators go on as if nothing had been drawn.
"""

from __future__ import annotations

from typing import Any

from torch.autograd import function as functions

from .determinism import kept_states, set_seeds
from .fingerprint import tensors_in
from .session import Session

TAG = "_verify_place"


def install(session: Session) -> None:
    own, node = functions.Function, functions.BackwardCFunction
    apply, backward = own.__dict__["apply"], node.apply  # a class method: bound anew to the class that applies it

    def patched_apply(cls: Any, /, *arguments: Any, **keywords: Any) -> Any:
        output = apply.__get__(None, cls)(*arguments, **keywords)
        place = session.place
        # Torch's own functions draw nothing, or take care of it themselves (checkpoint).
        if place.number is not None and not cls.__module__.startswith("torch."):
            place.functions += 1
            for _, tensor in tensors_in(output):
                made = tensor.grad_fn
                if isinstance(made, node) and not hasattr(made, TAG):
                    setattr(made, TAG, (place.number, place.replica, place.functions))
                    break
        return output

    def patched_backward(self: Any, *gradients: Any) -> Any:
        place = getattr(self, TAG, None)
        if place is None or session.foreign:
            return backward(self, *gradients)
        session.depth += 1  # a draw of as many rows as the rank's batch is this replica's, not the whole batch's
        try:
            with kept_states():
                set_seeds(session.settings.seed, "backward", *place)
                return backward(self, *gradients)
        finally:
            session.depth -= 1

    own.apply, node.apply = classmethod(patched_apply), patched_backward
