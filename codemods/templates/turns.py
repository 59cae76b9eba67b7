"""Processes of a converted program, one after the other."""

import contextlib
import os

import torch.distributed as dist


@contextlib.contextmanager
def rank_zero_first():
    """Let rank 0 do what is inside first, then one process of every other machine, then all the others."""
    alone = not dist.is_initialized()
    turn = 0 if alone or dist.get_rank() == 0 else 1 if os.environ.get("LOCAL_RANK") == "0" else 2
    for _ in range(turn):
        dist.barrier()
    try:
        yield
    finally:
        for _ in range(0 if alone else 2 - turn):
            dist.barrier()
