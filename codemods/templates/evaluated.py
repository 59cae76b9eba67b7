"""Evaluation with whole batches, of which each process computes its part: averages over devices stay what they were."""

import torch
import torch.distributed as dist
from accelerate.utils import gather_object
from torch.nn.parallel import DistributedDataParallel


def in_shares(model):
    """The model for evaluation, as nn.DataParallel ran it: each process computes its part of a batch and gets all outputs.

    All processes must call it, with equal batches. Outputs have no gradients; of a number there is one for each part.
    """
    module = model.module if isinstance(model, DistributedDataParallel) else model

    @torch.no_grad()
    def evaluate(*inputs, **kwargs):
        rank, world_size = dist.get_rank(), dist.get_world_size()
        if world_size == 1:
            return module(*inputs, **kwargs)
        count = count_parts((inputs, kwargs), world_size)
        output, outputs = None, [None] * world_size
        if rank < count:
            inputs, kwargs = map_parts(lambda tensor: tensor.chunk(world_size)[rank], (inputs, kwargs))
            output = map_parts(lambda tensor: tensor.cpu(), module(*inputs, **kwargs))
        dist.all_gather_object(outputs, output)
        device = next(module.parameters()).device
        return map_parts(lambda tensor: tensor.to(device), join_parts(outputs[:count]))

    return evaluate


def in_process_shares(accelerator, model):
    """The model for evaluation, as nn.DataParallel ran it: each process computes its part of a batch and gets all outputs.

    All processes must call it, with equal batches. Outputs have no gradients; of a number there is one for each part.
    """
    module, rank, world_size = accelerator.unwrap_model(model), accelerator.process_index, accelerator.num_processes

    @torch.no_grad()
    def evaluate(*inputs, **kwargs):
        if world_size == 1:
            return module(*inputs, **kwargs)
        count, output = count_parts((inputs, kwargs), world_size), None
        if rank < count:
            inputs, kwargs = map_parts(lambda tensor: tensor.chunk(world_size)[rank], (inputs, kwargs))
            output = map_parts(lambda tensor: tensor.cpu(), module(*inputs, **kwargs))
        outputs = gather_object([output])[:count]
        return map_parts(lambda tensor: tensor.to(accelerator.device), join_parts(outputs))

    return evaluate


def count_parts(value, most):
    """Into how many parts the tensors in `value` are cut; without tensors, all processes compute the same."""
    counts = [most]
    map_parts(lambda tensor: counts.append(len(tensor.chunk(most))), value)
    return min(counts)


def join_parts(outputs):
    """One output with the rows of all."""
    first = outputs[0]
    if isinstance(first, torch.Tensor):
        return torch.cat(outputs) if first.dim() else torch.stack(outputs)
    if isinstance(first, dict):
        return type(first)((key, join_parts([output[key] for output in outputs])) for key in first)
    if isinstance(first, (list, tuple)):
        items = [join_parts(parts) for parts in zip(*outputs)]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    return first


def map_parts(function, value):
    """`value` rebuilt with `function` applied to the tensors in its dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return type(value)((key, map_parts(function, item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        items = [map_parts(function, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
