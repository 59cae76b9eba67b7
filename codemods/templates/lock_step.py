"""Keeping the processes of a converted program equal, and finding out where they are not."""

import random
import sys
from itertools import chain

import torch
import torch.distributed as dist


def share_random_numbers():
    """Continue on all processes with rank 0's random numbers, for programs that leave them unseeded or seed by the clock.

    Rank 0's streams go on as if nothing had happened, so it can be called at any point that all processes reach.
    """
    numpy, cuda = sys.modules.get("numpy"), torch.cuda.is_available()
    states = [torch.get_rng_state(), random.getstate(), numpy and numpy.random.get_state()]
    states.append(cuda and torch.cuda.get_rng_state())
    dist.broadcast_object_list(states, src=0)
    torch.set_rng_state(states[0])
    random.setstate(states[1])
    if numpy:
        numpy.random.set_state(states[2])
    if cuda:
        torch.cuda.set_rng_state(states[3])


def check_in_sync(model):
    """Raise, on all processes, if a parameter or buffer of the model is not the same on them all, bit for bit."""

    def digest(tensor):
        data = tensor.detach().reshape(-1).view(torch.uint8)
        words = torch.nn.functional.pad(data, (0, -len(data) % 8)).view(torch.int64)
        return int((words * torch.arange(1, 2 * len(words), 2, device=words.device)).sum())

    digests = [None] * dist.get_world_size()
    own = {name: digest(t) for name, t in chain(model.named_parameters(), model.named_buffers())}
    dist.all_gather_object(digests, own)
    different = [name for name in own if any(other.get(name) != digests[0].get(name) for other in digests)]
    if different:
        raise RuntimeError(f"the processes differ in {len(different)} of {len(own)} tensors, first in {different[0]}")
