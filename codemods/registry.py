"""All rules, by the family that their folder is named after.

In: the files of the rules.  Out: the rules, in order of id.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codemods.base import Rule

# The rules of each family, in order of id; the folder of a family says what it is about.
RULE_FILES = {
    "source": (
        "non_blocking",
        "volatile",
        "numbers_of_tensors",
        "next_method",
        "loss_reduction",
        "topk_view",
        "old_names",
        "amp_names",
        "old_checkpoints",
    ),
    "processes": (
        "join_processes",
        "visible_devices",
        "own_branches",
        "make_accelerator",
        "group_timeout",
        "own_rendezvous",
        "launch_scripts",
        "hand_over",
        "from_ddp",
        "leave_group",
        "launch_function",
    ),
    "data": (
        "shard_loader",
        "set_epoch",
        "vary_seed",
        "split_batches",
        "data_copies",
        "set_order",
        "sampler_length",
        "drawn_once",
    ),
    "model": (
        "wrap_model",
        "split_call",
        "device_count",
        "type_tests",
        "prepare",
        "unwrap",
        "drop_wrapper",
        "own_device",
        "recompute",
        "replica_precision",
        "hooks",
        "default_tensors",
        "chosen_device",
        "placed_batches",
        "sync_batch_norm",
        "channels_last",
        "find_unused",
        "replica_callbacks",
    ),
    "optimisation": (
        "larger_batch",
        "mixed_precision",
        "own_precision",
        "without_apex",
        "whole_batch",
        "keep_alike",
        "backward",
        "accumulate",
    ),
    "effects": (
        "write_once",
        "folders",
        "log_sinks",
        "same_names",
        "prompts",
        "read_after_write",
        "other_logs",
        "progress_bars",
        "download_first",
        "file_decisions",
        "numbered_names",
        "caught_errors",
        "print_once",
    ),
    "checkpoints": (
        "whole_objects",
        "load_device",
        "bare_keys",
        "part_keys",
    ),
    "metrics": (
        "share_evaluation",
        "shown_loss",
    ),
    "unconverted": (
        "look_alikes",
        "unresolved",
    ),
}


def load_rules() -> list[Rule]:
    """All rules, in order of id."""
    return [import_module(f"codemods.{family}.{name}").RULE for family, names in RULE_FILES.items() for name in names]
