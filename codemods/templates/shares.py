"""One process's share of the data, and figures put together over all processes."""

import math
import random
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Subset


def wrap_model(model, **options):
    """Put the model on this process's device and average its gradients over all processes."""
    if not torch.cuda.is_available():
        return DistributedDataParallel(model, **options)
    return DistributedDataParallel(model.cuda(), device_ids=[torch.cuda.current_device()], **options)


def local_batch(batch_size):
    """This process's part of a batch of `batch_size` samples."""
    world_size = dist.get_world_size()
    if batch_size % world_size:
        raise SystemExit(
            f"a batch of {batch_size} samples does not divide over {world_size} processes: change one of them"
        )
    return batch_size // world_size


class SplitBatchSampler:
    """This process's chunk of each batch that rank 0 draws."""

    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler

    def __len__(self):
        return len(self.batch_sampler)

    def __iter__(self):
        rank, world_size = dist.get_rank(), dist.get_world_size()
        box = [[list(batch) for batch in self.batch_sampler] if rank == 0 else None]
        dist.broadcast_object_list(box, src=0)
        for batch in box[0]:
            short = -len(batch) % world_size  # equal chunks, so that the mean of the chunks' means is the batch's mean
            batch = (batch + batch * short)[: len(batch) + short]
            size = len(batch) // world_size
            yield batch[rank * size : (rank + 1) * size]


class DealBatchSampler:
    """This process's share of the batches that rank 0 draws: every world size-th of them."""

    def __init__(self, batch_sampler):
        self.batch_sampler = batch_sampler

    def __len__(self):
        return math.ceil(len(self.batch_sampler) / dist.get_world_size())

    def __iter__(self):
        rank, world_size = dist.get_rank(), dist.get_world_size()
        box = [[list(batch) for batch in self.batch_sampler] if rank == 0 else None]
        dist.broadcast_object_list(box, src=0)
        for place in range(rank, len(self) * world_size, world_size):  # as many steps on each process
            yield box[0][place % len(box[0])]


def split_batches(loader):
    """The loader, with only this process's part of each batch; its workers are shared out too."""
    return DataLoader(
        loader.dataset,
        batch_sampler=SplitBatchSampler(loader.batch_sampler),
        num_workers=math.ceil(loader.num_workers / dist.get_world_size()),
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        worker_init_fn=loader.worker_init_fn,
    )


def deal_batches(loader):
    """The loader, with only this process's batches; its workers are shared out too."""
    return DataLoader(
        loader.dataset,
        batch_sampler=DealBatchSampler(loader.batch_sampler),
        num_workers=math.ceil(loader.num_workers / dist.get_world_size()),
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        worker_init_fn=loader.worker_init_fn,
    )


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
    return sum_over_ranks(*(value / dist.get_world_size() for value in values))


def average_over_ranks(*meters):
    """Make each meter's average cover the samples of all processes."""
    for meter in meters:
        meter.sum, meter.count = sum_over_ranks(meter.sum, meter.count)
        meter.avg = meter.sum / max(meter.count, 1)
