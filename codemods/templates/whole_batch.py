"""The rows of all processes put together, for losses and figures that look at the whole batch."""

import torch
import torch.distributed as dist


class GatherRows(torch.autograd.Function):
    """Concatenates the tensors of all processes, in order of rank; scalars become a vector."""

    @staticmethod
    def forward(ctx, *shares):
        wholes = []
        for share in shares:
            rows = share.detach().contiguous()
            if dist.get_backend() == "nccl":  # knows tensors on GPUs only
                rows = rows.cuda()
            parts = [torch.empty_like(rows) for _ in range(dist.get_world_size())]
            dist.all_gather(parts, rows)
            wholes.append((torch.cat(parts) if rows.dim() else torch.stack(parts)).to(share.device))
        ctx.mark_non_differentiable(*(whole for whole, share in zip(wholes, shares) if not share.requires_grad))
        ctx.shapes = [share.shape for share in shares]
        return tuple(wholes)

    @staticmethod
    def backward(ctx, *gradients):
        # Every process computes the same loss of the whole batch, so each has the gradient of its own rows already.
        # DistributedDataParallel divides by the number of processes, which is made up for here.
        rank, world_size = dist.get_rank(), dist.get_world_size()
        return tuple(g.chunk(world_size)[rank].reshape(shape) * world_size for g, shape in zip(gradients, ctx.shapes))


def whole_batch(value):
    """`value` with the rows of all processes in its tensors; the processes' shares must be of equal size."""
    shares = []
    map_tensors(shares.append, value)
    wholes = iter(GatherRows.apply(*shares) if shares else ())
    return map_tensors(lambda share: next(wholes), value)


def map_tensors(function, value):
    """`value` rebuilt with `function` applied to the tensors in its dicts, lists and tuples."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict):
        return type(value)((key, map_tensors(function, item)) for key, item in value.items())
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], str):  # names of samples
        lists = [None] * dist.get_world_size()
        dist.all_gather_object(lists, list(value))
        return type(value)(name for names in lists for name in names)
    if isinstance(value, (list, tuple)):
        items = [map_tensors(function, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value
