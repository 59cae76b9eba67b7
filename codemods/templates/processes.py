"""The processes of a converted program: how they meet, part, and agree."""

import os
import sys

import torch
import torch.distributed as dist


def setup_distributed(timeout=None):
    """Join the process group that torchrun describes (a group of one under plain `python`)."""
    use_cuda = torch.cuda.is_available()
    if use_cuda:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    backend = "nccl" if use_cuda and dist.is_nccl_available() else "gloo"
    if "RANK" in os.environ:
        dist.init_process_group(backend, timeout=timeout)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1)
    if dist.get_rank() != 0:
        sys.stdout = open(os.devnull, "w")  # one process speaks for all


def from_rank_zero(value):
    """Rank 0's value, on every process."""
    if not dist.is_initialized():
        return value
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


class NoWriter:
    """Takes the place of a log writer on processes other than rank 0: every method does nothing."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: self

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass
