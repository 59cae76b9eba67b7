"""The rules: one file each, one obligation of data-parallel training each.  `load_rules()` gives them in order of id."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codemods.base import Rule
    from codemods.runner import ConvertToAccelerate, ConvertToDDP

__all__ = ["ConvertToAccelerate", "ConvertToDDP", "load_rules"]

RULE_FILES = (
    "non_blocking",
    "volatile",
    "numbers_of_tensors",
    "next_method",
    "loss_reduction",
    "topk_view",
    "old_names",
    "amp_names",
    "old_checkpoints",
    "join_processes",
    "leave_group",
    "visible_devices",
    "group_timeout",
    "split_call",
    "wrap_model",
    "drop_wrapper",
    "sync_batch_norm",
    "channels_last",
    "find_unused",
    "shard_loader",
    "split_batches",
    "set_epoch",
    "vary_seed",
    "set_order",
    "share_evaluation",
    "larger_batch",
    "mixed_precision",
    "own_precision",
    "without_apex",
    "device_count",
    "type_tests",
    "own_device",
    "write_once",
    "caught_errors",
    "folders",
    "log_sinks",
    "same_names",
    "prompts",
    "look_alikes",
    "load_device",
    "other_logs",
    "progress_bars",
    "own_branches",
    "whole_objects",
    "read_after_write",
    "download_first",
    "file_decisions",
    "own_rendezvous",
    "launch_scripts",
    "launch_function",
    "data_copies",
    "recompute",
    "replica_precision",
    "hooks",
    "default_tensors",
    "shown_loss",
    "whole_batch",
    "keep_alike",
    "numbered_names",
    "replica_callbacks",
    "make_accelerator",
    "from_ddp",
    "placed_batches",
    "print_once",
    "accumulate",
    "hand_over",
    "chosen_device",
    "prepare",
    "unwrap",
    "bare_keys",
    "backward",
    "unresolved",
)


def load_rules() -> list[Rule]:
    """All rules, in order of id."""
    from importlib import import_module

    return sorted((import_module(f"codemods.{name}").RULE for name in RULE_FILES), key=lambda rule: rule.id)


def __getattr__(name: str) -> type[ConvertToDDP]:
    """`codemods.ConvertToDDP`, imported when a codemod runner asks for it (libcst.codemod doubles the start-up time)."""
    if name in ("ConvertToAccelerate", "ConvertToDDP"):
        from codemods import runner

        found: type[ConvertToDDP] = getattr(runner, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
