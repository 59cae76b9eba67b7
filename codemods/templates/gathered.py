"""The rows of all processes put together, for programs that use accelerate."""

import torch
from accelerate.utils import honor_type


class GatherWithGradient(torch.autograd.Function):
    """`accelerator.gather` for several tensors, with gradients; scalars become a vector, as under DataParallel."""

    @staticmethod
    def forward(ctx, accelerator, *shares):
        ctx.accelerator, ctx.shapes = accelerator, [share.shape for share in shares]
        wholes = [accelerator.gather(share.to(accelerator.device)).to(share.device) for share in shares]
        ctx.mark_non_differentiable(*(whole for whole, share in zip(wholes, shares) if not share.requires_grad))
        return tuple(wholes)

    @staticmethod
    def backward(ctx, *gradients):
        # All processes compute the same loss of the whole batch, and the prepared model averages their gradients.
        rank, world_size = ctx.accelerator.process_index, ctx.accelerator.num_processes
        own = [gradient.chunk(world_size)[rank] * world_size for gradient in gradients]
        return None, *(gradient.reshape(shape) for gradient, shape in zip(own, ctx.shapes))


def gather_batch(accelerator, data):
    """`data` with the rows of all processes, as `accelerator.gather_for_metrics` has them, and with their gradients.

    What fills up a prepared loader's last batch is cut off.
    """
    if accelerator.num_processes == 1:
        return data
    shares = list(tensors_in(data))
    wholes = iter(GatherWithGradient.apply(accelerator, *shares) if shares else ())
    return with_rows(accelerator, data, wholes)


def tensors_in(data):
    if isinstance(data, torch.Tensor):
        yield data
    elif isinstance(data, (dict, list, tuple)):
        for item in data.values() if isinstance(data, dict) else data:
            yield from tensors_in(item)


def with_rows(accelerator, data, wholes):
    """`data` rebuilt, with the next of `wholes` for each of its tensors."""
    if isinstance(data, torch.Tensor):
        rows, state = next(wholes), accelerator.gradient_state
        if data.dim() and state.end_of_dataloader and state.remainder > 0:
            rows = rows[: len(rows) * state.remainder // state.active_dataloader.total_batch_size]
        return rows
    if isinstance(data, dict):
        return type(data)({key: with_rows(accelerator, value, wholes) for key, value in data.items()})
    if isinstance(data, (list, tuple)) and data and isinstance(data[0], str):  # names of samples
        return type(data)(accelerator.gather_for_metrics(list(data), use_gather_object=True))
    if isinstance(data, (list, tuple)):
        return honor_type(data, (with_rows(accelerator, item, wholes) for item in data))
    return data
