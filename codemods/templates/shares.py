"""One process's share of the data, and figures put together over all processes."""

import random
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import Subset


def wrap_model(model):
    """Put the model on this process's device and average its gradients over all processes."""
    if not torch.cuda.is_available():
        return DistributedDataParallel(model)
    return DistributedDataParallel(model.cuda(), device_ids=[torch.cuda.current_device()])


def local_batch(batch_size):
    """This process's part of a batch of `batch_size` samples."""
    world_size = dist.get_world_size()
    if batch_size % world_size:
        raise SystemExit(f"a batch of {batch_size} samples does not divide over {world_size} processes")
    return batch_size // world_size


def own_share(dataset):
    """This process's samples for evaluation: no sample is left out, and none counts twice."""
    return Subset(dataset, range(dist.get_rank(), len(dataset), dist.get_world_size()))


def vary_seed_by_rank():
    """From here on each process draws its own random numbers: augmentation and dropout differ, as over one batch."""
    rank = dist.get_rank()
    if rank:
        seed = (torch.initial_seed() + rank) % 2**32
        random.seed(seed)
        torch.manual_seed(seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed(seed)


def sync_buffers(model):
    """Give every process rank 0's BatchNorm statistics, the ones that DataParallel kept."""
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)


def sum_over_ranks(*values):
    """Each number summed over all processes, in its own type."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    totals = torch.tensor([float(value) for value in values], dtype=torch.float64, device=device)
    dist.all_reduce(totals)
    sums = [
        value.new_tensor(total) if isinstance(value, torch.Tensor) else type(value)(total)
        for value, total in zip(values, totals.tolist())
    ]
    return sums if len(sums) > 1 else sums[0]


def mean_over_ranks(*values):
    """Each number averaged over all processes, for sums of batch means."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    totals = torch.tensor([float(value) for value in values], dtype=torch.float64, device=device)
    dist.all_reduce(totals)
    means = [
        value.new_tensor(mean) if isinstance(value, torch.Tensor) else mean
        for value, mean in zip(values, (totals / dist.get_world_size()).tolist())
    ]
    return means if len(means) > 1 else means[0]


def average_over_ranks(*meters):
    """Make each meter's average cover the samples of all processes."""
    for meter in meters:
        meter.sum, meter.count = sum_over_ranks(meter.sum, meter.count)
        meter.avg = meter.sum / max(meter.count, 1)
