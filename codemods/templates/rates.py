"""The learning rate of a converted program whose batch grew."""

import math


def scale_learning_rate(optimizer, world_size, steps):
    """Take each step at world size times its learning rate, because each batch is world size times as large.

    Over the first 5 % of all `steps` the factor rises from 1 (the linear scaling rule and its warm-up, arXiv 1706.02677).
    The rate that the program sets, logs and saves stays the unscaled one; the count of steps is saved with it.
    """
    warm_up = max(1, math.ceil(0.05 * steps))

    def scale(optimizer, args, kwargs):
        taken = optimizer.param_groups[0].get("steps_taken", 0)
        for group in optimizer.param_groups:
            group["unscaled_lr"] = group["lr"]
            group["lr"] = group["lr"] * (1 + (world_size - 1) * min(1, taken / warm_up))
        optimizer.param_groups[0]["steps_taken"] = taken + 1

    def restore(optimizer, args, kwargs):
        for group in optimizer.param_groups:
            group["lr"] = group.pop("unscaled_lr")

    optimizer.register_step_pre_hook(scale)
    optimizer.register_step_post_hook(restore)
