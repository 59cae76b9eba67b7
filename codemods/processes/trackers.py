"""Logs of training for which accelerate has a tracker of its own."""

from collections.abc import Iterator

from codemods.base import Context, Diagnostic, Rule

_TRACKERS = {"SummaryWriter": "tensorboard", "wandb.init": "wandb"}


def trackers(rule: Rule, context: Context) -> Iterator[Diagnostic]:
    """accelerate's own trackers are offered where the program has one that it knows."""
    for effect in context.program.effects:
        tracker = next(
            (name for end, name in _TRACKERS.items() if effect.kind == "sink" and effect.name.endswith(end)), ""
        )
        if tracker:
            offer = f'Accelerator(log_with="{tracker}") with init_trackers and accelerator.log'
            yield rule.note(
                effect.at, f"the program's own log is kept, written by one process; accelerate's way is {offer}"
            )
            return
