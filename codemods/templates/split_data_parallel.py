"""nn.DataParallel over processes: every rank sees whole batches, and the wrapped call is shared out among the ranks.

All ranks must run the same program on equal batches; only what happens inside the wrapped call differs between them.
"""

import contextlib
import math
import random
import sys
from functools import partial
from itertools import chain
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import nn
from torch._utils import ExceptionWrapper


class SplitDataParallel(nn.Module):
    """Runs this rank's chunk of a call and returns the whole batch's outputs, with the whole batch's gradients.

    As nn.DataParallel does: chunks of every tensor among the arguments, a throw-away replica of the module, outputs
    concatenated. All ranks must make the call, with equal arguments.
    """

    splits_batch = True
    calls = 0
    _inside = False  # while a replica runs

    def __init__(self, module, dim=0):
        super().__init__()
        self.module, self.dim = module, dim
        self.is_alike = False  # until the first call: by then the module is on its device, where ranks can exchange it

    def forward(self, *inputs, **kwargs):
        own = next(chain(self.module.parameters(), self.module.buffers()), None)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu") if own is None else own.device
        # A wrap inside a wrap, also one that is made there, is given a chunk already.
        if _world_size() == 1 or "_is_replica" in self.__dict__ or SplitDataParallel._inside:
            inputs, kwargs = _map_tensors(lambda t: t.to(device), (inputs, kwargs))
            return self.module(*inputs, **kwargs)
        if not self.is_alike:
            _broadcast([*self.module.parameters(), *self.module.buffers()])
            self.is_alike = True

        split = _plan(inputs, kwargs, self.dim, device)
        replica, to_parameters = _replicate(self.module, split)
        inputs, kwargs, to_inputs = _scatter((inputs, kwargs), split)
        SplitDataParallel.calls += 1
        seed = hash((torch.initial_seed(), SplitDataParallel.calls, split.index)) % 2**63
        try:
            SplitDataParallel._inside = True
            with _random_numbers(seed):
                output = self._run_replica(replica, inputs, kwargs)
            tensors = dict(_named_tensors(output))
            report = {name: (tuple(t.shape), t.dtype, t.requires_grad) for name, t in tensors.items()}
        except Exception:  # raised on all ranks, so that whatever the program does about it happens everywhere
            report = ExceptionWrapper(where=f"in replica {split.index} on rank {dist.get_rank()}")
        finally:
            SplitDataParallel._inside = False
        reports = [None] * _world_size()
        dist.all_gather_object(reports, report)
        _broadcast(list(self.module.buffers()))  # replica 0's updates are the ones that stay
        for failure in reports:
            if isinstance(failure, ExceptionWrapper):
                failure.reraise()
        return _gather(output, tensors, reports[: split.count], split, [*to_parameters, *to_inputs])

    def _run_replica(self, replica, inputs, kwargs):
        return replica(*inputs, **kwargs)


class _Split(NamedTuple):
    """How a call is shared out: this rank runs replica `index` of `count`.

    A rank for which no rows are left is idle: it runs replica 0 once more, so as to make the collective calls that the
    others make, and contributes nothing to them.
    """

    dim: int
    count: int
    index: int
    idle: bool
    device: torch.device


def _plan(inputs, kwargs, dim, device):
    """The tensor with the fewest chunks decides on the number of replicas; without tensors, each rank runs one."""
    counts = [[], []]
    for found, group in zip(counts, (inputs, kwargs)):
        _map_tensors(lambda t, found=found: found.append(len(t.chunk(_world_size(), dim))), group)
    if all(counts) and min(counts[0]) != min(counts[1]):
        raise ValueError(f"positional tensors make {min(counts[0])} chunks, keyword tensors {min(counts[1])}")
    count = min(chain(*counts), default=_world_size() if inputs or kwargs else 1)
    rank = dist.get_rank()
    return _Split(dim, count, rank if rank < count else 0, rank >= count, device)


def _world_size():
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def _map_tensors(function, value):
    """Rebuild nested dicts, lists and tuples with `function` applied to their tensors."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, dict) and value:
        return type(value)((key, _map_tensors(function, item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        items = [_map_tensors(function, item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def _named_tensors(value, name="output"):
    """The tensors of an output, in the order of _map_tensors; a TypeError for what DataParallel cannot gather either."""
    if isinstance(value, torch.Tensor):
        yield name, value
    elif isinstance(value, (dict, list, tuple)):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _named_tensors(item, f"{name}[{key!r}]")
    elif value is not None:
        raise TypeError(f"{name} is a {type(value).__name__}; only tensors in dicts, lists and tuples can be gathered")


def _replicate(module, split):
    """A throw-away copy of the module that shares its parameters; and a path back: one of those that need a gradient."""
    parameters, buffers = list(module.parameters()), list(module.buffers())
    tracked = [t for t in parameters + buffers if t.requires_grad and torch.is_grad_enabled()]
    shared = _Exchange.apply(lambda tensors: tensors, partial(_sum, split, tracked), *tracked) if tracked else ()
    copies = dict(zip(map(id, tracked), shared))
    for tensor in parameters:
        copies.setdefault(id(tensor), tensor.detach())
    for tensor in buffers:  # what replica 0 writes to a buffer stays, what another one writes is lost
        copies.setdefault(id(tensor), tensor.clone() if dist.get_rank() else tensor)
    replicas = {original: original._replicate_for_data_parallel() for original in module.modules()}
    for original, replica in replicas.items():
        replica._former_parameters = replica._parameters  # the name under which torch keeps them in a replica
        for name, child in original._modules.items():
            setattr(replica, name, replicas.get(child))
        for name, tensor in chain(original._parameters.items(), original._buffers.items()):
            if tensor is not None:
                setattr(replica, name, copies[id(tensor)])
            if name in original._parameters and (tensor is None or name in replica.__dict__):
                replica._parameters[name] = replica.__dict__.pop(name, None)  # found by replica.parameters() too
    return replicas[module], shared[:1]


def _scatter(arguments, split):
    """This replica's chunk of each tensor, and a path back. It is a copy: the batch, equal on all ranks, must stay so."""
    tracked = {}
    if torch.is_grad_enabled():
        _map_tensors(lambda t: tracked.setdefault(id(t), t) if t.requires_grad else None, arguments)
    layouts = [([c.shape for c in t.chunk(_world_size(), split.dim)], t.dtype) for t in tracked.values()]
    maps = partial(_own_rows, split, layouts), partial(_all_rows, split, layouts)
    plain = [t.as_subclass(torch.Tensor).to(split.device) for t in tracked.values()]
    chunks = _Exchange.apply(*maps, *plain) if tracked else ()
    done = dict(zip(tracked, chunks))

    def take(tensor):
        if id(tensor) in done:
            return done[id(tensor)]
        chunk = tensor.chunk(_world_size(), split.dim)[split.index]
        return chunk.as_subclass(torch.Tensor).to(split.device, copy=True)  # replicas get plain tensors

    return *_map_tensors(take, arguments), chunks[:1]


def _gather(output, tensors, reports, split, paths):
    """This replica's output, each tensor of which now holds the rows of all replicas (a vector, if it was a number)."""
    kinds = [[(name, dtype) for name, (_, dtype, _) in report.items()] for report in reports]
    if any(kind != kinds[0] for kind in kinds):
        raise ValueError(f"the outputs of the replicas have different structures: {kinds}")
    wholes = []
    for name, tensor in tensors.items():  # one by one: a backward pass from one output leaves the others' graphs alone
        layouts = [([report[name][0] for report in reports], tensor.dtype)]
        maps = partial(_all_rows, split, layouts), partial(_own_rows, split, layouts)
        # The paths lead each rank's backward pass to the collectives, even if its own output depends on no parameter.
        (whole,) = _Exchange.apply(*maps, tensor, *paths)
        wholes.append(whole if any(report[name][2] for report in reports) else whole.detach())
    in_order = iter(wholes)
    return _map_tensors(lambda _: next(in_order), output)


class _Exchange(torch.autograd.Function):
    """A linear map between ranks, and its transpose for backward; gradients of gradients come of their own."""

    @staticmethod
    def forward(ctx, there, back, *tensors):
        ctx.there, ctx.back, ctx.inputs = there, back, len(tensors)
        ctx.set_materialize_grads(False)
        return tuple(there(tensors))

    @staticmethod
    def backward(ctx, *grads):
        results = _Exchange.apply(ctx.back, ctx.there, *grads)
        return None, None, *results, *[None] * (ctx.inputs - len(results))


def _sum(split, parameters, grads):
    """The sum over the replicas of each parameter's gradient; zeros for one that was not used, as in DataParallel."""
    dense = [torch.zeros_like(p) if g is None else g.to_dense() for p, g in zip(parameters, grads)]
    sums = _coalesced(lambda flat: dist.all_reduce(flat.zero_() if split.idle else flat), dense)
    return [s.to_sparse(1) if g is not None and g.is_sparse else s for s, g in zip(sums, grads)]


def _own_rows(split, layouts, wholes):
    """This replica's rows of tensors that are equal on all ranks."""
    rows = []
    for (shapes, _), whole in zip(layouts, wholes):
        sizes = [shape[split.dim] if shape else 1 for shape in shapes]
        place = split.dim, sum(sizes[: split.index]), sizes[split.index]
        rows.append(None if whole is None else whole.narrow(*place).reshape(shapes[split.index]).clone())
    return rows


def _all_rows(split, layouts, parts):
    """Whole tensors, equal on all ranks, from the rows of each replica."""
    wholes = []
    for (shapes, dtype), part in zip(layouts, parts):
        padded = torch.zeros(max(map(math.prod, shapes)), dtype=dtype, device=split.device)
        if part is not None:
            padded[: part.numel()] = part.reshape(-1)
        rows = padded.new_zeros(_world_size(), len(padded))
        dist.all_gather(list(rows.view(torch.uint8)), padded.view(torch.uint8))  # bytes: a backend may lack the dtype
        rows[split.count :] = 0
        pieces = [row[: math.prod(shape)].view(shape) for row, shape in zip(rows, shapes)]
        wholes.append(torch.cat(pieces, split.dim) if shapes[0] else torch.stack(pieces))
    return wholes


def _coalesced(collective, tensors):
    """The results of an in-place collective, for which the tensors of one dtype travel as one."""
    results = list(tensors)
    for dtype in dict.fromkeys(t.dtype for t in tensors):
        group = [i for i, t in enumerate(tensors) if t.dtype == dtype]
        flat = torch.cat([tensors[i].reshape(-1) for i in group])
        collective(flat)
        for i, part in zip(group, flat.split([tensors[i].numel() for i in group])):
            results[i] = part.view(tensors[i].shape)
    return results


def _broadcast(tensors):
    """Give all ranks rank 0's values."""
    if _world_size() > 1:
        values = _coalesced(lambda flat: dist.broadcast(flat.view(torch.uint8), 0), [t.detach() for t in tensors])
        for tensor, value in zip(tensors, values if dist.get_rank() else ()):
            tensor.data.copy_(value)  # .data: a graph that holds the tensor stays valid


@contextlib.contextmanager
def _random_numbers(seed):
    """Draw from a stream of this replica's own; afterwards the program's streams go on, equal on all ranks."""
    numpy = sys.modules.get("numpy")
    states = random.getstate(), numpy and numpy.random.get_state()
    devices = [torch.cuda.current_device()] if torch.cuda.is_available() else []
    with torch.random.fork_rng(devices):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would seed the other devices as well
        for _ in devices:
            torch.cuda.manual_seed(seed)
        random.seed(seed)
        if numpy:
            numpy.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(states[0])
            if numpy:
                numpy.random.set_state(states[1])


def keep_alike(optimizer):
    """Let every step of the optimizer take rank 0's gradients, for what is trained outside the wrapped model.

    Every process computes these gradients itself, and from the same numbers; the last bits may differ on GPUs all the same,
    and the processes would drift apart.
    """
    if isinstance(optimizer, torch.optim.LBFGS):  # computes its gradients within the step
        return

    def take_gradients(optimizer, args, kwargs):
        parameters = chain.from_iterable(group["params"] for group in optimizer.param_groups)
        _broadcast([p.grad for p in parameters if p.grad is not None and not p.grad.is_sparse])

    optimizer.register_step_pre_hook(take_gradients)
