"""One process's share of the data, and figures put together over all processes, for programs that use accelerate.

Alone under `python` there is no process group: everything here then leaves its argument as it is.
"""

import math

import torch
from accelerate.utils import broadcast_object_list, reduce, set_seed
from torch.utils.data import DataLoader, Subset


def process_share(accelerator, dataset):
    """This process's samples for evaluation: no sample is left out, and none counts twice."""
    return Subset(dataset, range(accelerator.process_index, len(dataset), accelerator.num_processes))


class ProcessBatchSampler:
    """This process's chunk of each batch that the main process draws."""

    def __init__(self, accelerator, batch_sampler):
        self.accelerator, self.batch_sampler = accelerator, batch_sampler

    def __len__(self):
        return len(self.batch_sampler)

    def __iter__(self):
        rank, world_size = self.accelerator.process_index, self.accelerator.num_processes
        box = [[list(batch) for batch in self.batch_sampler] if rank == 0 else None]
        broadcast_object_list(box)
        for batch in box[0]:
            short = -len(batch) % world_size  # equal chunks, so that the mean of the chunks' means is the batch's mean
            batch = (batch + batch * short)[: len(batch) + short]
            size = len(batch) // world_size
            yield batch[rank * size : (rank + 1) * size]


def process_batches(accelerator, loader):
    """The loader, with only this process's part of each batch; it is not prepared, so that no batch is filled up."""
    return DataLoader(
        loader.dataset,
        batch_sampler=ProcessBatchSampler(accelerator, loader.batch_sampler),
        num_workers=math.ceil(loader.num_workers / accelerator.num_processes),
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        worker_init_fn=loader.worker_init_fn,
    )


def vary_seed_by_process(accelerator):
    """From here on each process draws its own random numbers: augmentation and dropout differ, as over one batch."""
    if accelerator.process_index:  # the main process goes on with the original's
        set_seed(torch.initial_seed() % 2**31, device_specific=True)


def sum_over_processes(accelerator, *values):
    """Each number summed over all processes, in its own type."""
    if accelerator.num_processes > 1:
        numbers = [float(value) for value in values]
        totals = torch.tensor(numbers, dtype=torch.float64, device=accelerator.device)
        totals = reduce(totals, reduction="sum").tolist()
        values = [
            value.new_tensor(total) if isinstance(value, torch.Tensor) else type(value)(total)
            for value, total in zip(values, totals)
        ]
    return values if len(values) > 1 else values[0]


def mean_over_processes(accelerator, *values):
    """Each number averaged over all processes, for sums of batch means."""
    if accelerator.num_processes > 1:
        numbers = [float(value) for value in values]
        means = torch.tensor(numbers, dtype=torch.float64, device=accelerator.device)
        means = reduce(means, reduction="mean").tolist()
        values = [
            value.new_tensor(mean) if isinstance(value, torch.Tensor) else mean for value, mean in zip(values, means)
        ]
    return values if len(values) > 1 else values[0]


def average_over_processes(accelerator, *meters):
    """Make each meter's average cover the samples of all processes."""
    for meter in meters:
        meter.sum, meter.count = sum_over_processes(accelerator, meter.sum, meter.count)
        meter.avg = meter.sum / max(meter.count, 1)


def without_module_prefix(state_dict):
    """The keys of the model itself: checkpoints of the DataParallel version have "module." in front of them."""
    prefixed = all(name.startswith("module.") for name in state_dict)
    return {name[len("module.") :]: value for name, value in state_dict.items()} if prefixed else state_dict


def with_module_prefix(state_dict):
    """The keys of the DataParallel version's checkpoints."""
    return {f"module.{name}": value for name, value in state_dict.items()}
