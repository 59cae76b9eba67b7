"""What the split at the call costs: CPU time per training step, against DDP with a divided loader and against one process.

    python -m benchmarks.split_cost [--world 2] [--steps 20] [--rounds 7]

In: nothing but torch.  Out: a JSON object per network with the median CPU milliseconds per step (summed over the ranks,
loading included) of each form, and the median and range, over interleaved rounds, of the ratios between them.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch._dynamo  # optimizers import it; once here, rather than in every child
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from codemods.templates.split_data_parallel import SplitDataParallel

BATCH, WARM_UP = 64, 3


def convolutional() -> tuple[nn.Module, torch.Tensor]:
    def block(width: int, to: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(width, to, 3, padding=1), nn.BatchNorm2d(to), nn.ReLU(), nn.MaxPool2d(2))

    layers = [block(3, 16), block(16, 32), block(32, 64), nn.Flatten(), nn.Linear(64 * 16, 10)]
    return nn.Sequential(*layers), torch.randn(BATCH, 3, 32, 32)


def residual() -> tuple[nn.Module, torch.Tensor]:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Conv2d(16, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.body(x)

    blocks = [Block() for _ in range(12)]
    net = nn.Sequential(nn.Conv2d(3, 16, 3), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))
    return net, torch.randn(BATCH, 3, 14, 14)


def small() -> tuple[nn.Module, torch.Tensor]:
    net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    return net, torch.randn(BATCH, 64)


NETWORKS = {"convolutional": convolutional, "residual": residual, "small": small}
FORMS = ("one process", "ddp", "split")


def cpu_per_step(network: Callable[[], tuple[nn.Module, torch.Tensor]], form: str, steps: int) -> float:
    """CPU milliseconds of this process per step, its share of the loading included."""
    torch.manual_seed(0)
    net, inputs = network()
    count = BATCH * (WARM_UP + steps)
    dataset = TensorDataset(inputs.repeat(WARM_UP + steps, *[1] * (inputs.dim() - 1)), torch.arange(count) % 10)
    if form == "ddp":
        net = DistributedDataParallel(net)
        loader = DataLoader(dataset, BATCH // dist.get_world_size(), sampler=DistributedSampler(dataset))
    else:
        net = SplitDataParallel(net) if form == "split" else net
        loader = DataLoader(dataset, BATCH, shuffle=True)
    optimizer = torch.optim.SGD(net.parameters(), 0.01, momentum=0.9)
    started = 0.0
    for step, (x, y) in enumerate(loader):
        if step == WARM_UP:
            started = time.process_time()
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return (time.process_time() - started) / steps * 1000


def run(rank: int, world: int, steps: int, rounds: int, store: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=world)
    for name, network in NETWORKS.items():
        times: dict[str, list[float]] = {form: [] for form in FORMS}
        for _ in range(rounds):
            for form in FORMS:
                dist.barrier()
                alone = form == "one process"
                spent = torch.tensor(cpu_per_step(network, form, steps) if rank == 0 or not alone else 0.0)
                dist.all_reduce(spent)
                times[form].append(spent.item())
        if rank == 0:
            print(
                json.dumps({"network": name, "world": world, "torch": torch.__version__, **summary(times)}), flush=True
            )
    dist.barrier()


def summary(times: dict[str, list[float]]) -> dict[str, object]:
    def ratio(form: str, base: str) -> list[float]:
        found = sorted(a / b for a, b in zip(times[form], times[base], strict=True))
        return [round(r, 2) for r in (found[0], statistics.median(found), found[-1])]

    return {
        "cpu_ms_per_step": {form: round(statistics.median(found), 2) for form, found in times.items()},
        "split_to_ddp": ratio("split", "ddp"),
        "split_to_one_process": ratio("split", "one process"),
        "ddp_to_one_process": ratio("ddp", "one process"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--world", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(options.world):
            child = os.fork()
            if child == 0:
                try:
                    run(rank, options.world, options.steps, options.rounds, str(Path(folder) / "store"))
                finally:
                    os._exit(0)  # gloo's threads may abort an orderly exit
            children.append(child)
        for child in children:
            os.waitpid(child, 0)


if __name__ == "__main__":
    main()
