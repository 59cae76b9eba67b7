"""What generated code costs: a converted program against the DistributedDataParallel program that an expert writes by hand.

    python -m benchmarks.generated_against_expert [--pairs 20] [--world 2]

In: nothing but torch and scipy.  Out: a table with the collective calls and operator calls of a step, and CPU time (of all
ranks, loading, evaluation and checkpoints included) as a ratio to the expert's, with its 95 % interval over interleaved pairs.
The other ways to share a batch stand beside it, with fewer pairs.  Exit code 1 when a "must" does not hold.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import traceback
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch._dynamo  # optimizers import it; once here, rather than in every child
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils._python_dispatch import TorchDispatchMode

from codemods.options import Options
from migrator.convert.pipeline import convert_program

WARM_UP, COUNTED, STEPS = 3, 4, 8  # steps before the first figure, steps that are counted, steps of an epoch
EPOCHS, SECONDS = 5, 300
OPERATORS, CPU = 1.01, 1.06  # what the generated program may need, to the expert's

COMMON = """\
import argparse
import os

import torch
{imports}
from torch import nn
from torch.utils.data import DataLoader, TensorDataset{samplers}


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.Dropout(0.1)
        )

    def forward(self, x):
        return x + self.body(x)


class Net(nn.Module):
    def __init__(self, width=24, depth=6):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(*[Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(dim=(2, 3)))


def images(count):
    return TensorDataset(torch.randn(count, 3, 32, 32), torch.randint(10, (count,)))
"""
# The program as its users have it.
ORIGINAL = (
    COMMON.format(imports="", samplers="").replace("torch\n\nfrom", "torch\nfrom")
    + """

def evaluate(model, loader, device):
    model.eval()
    correct = total = 0
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            correct += (model(inputs).argmax(1) == targets).sum().item()
            total += targets.size(0)
    return correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set, test_set = images(256), images(64)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=args.batch_size)
    model = nn.DataParallel(Net()).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    best = 0.0
    for epoch in range(args.epochs):
        model.train()
        total = 0.0
        for inputs, targets in train_loader:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        accuracy = evaluate(model, test_loader, device)
        print(f"epoch {epoch}: loss {total / len(train_loader):.4f}, accuracy {accuracy:.4f}")
        if accuracy >= best:
            best = accuracy
            torch.save(model.state_dict(), "best.pt")


if __name__ == "__main__":
    main()
"""
)
# The same program by hand.
EXPERT = (
    COMMON.format(
        imports="import torch.distributed as dist", samplers=", Subset\nfrom torch.utils.data import DistributedSampler"
    ).replace("from torch import nn\n", "from torch import nn\nfrom torch.nn.parallel import DistributedDataParallel\n")
    + """

def setup():
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def evaluate(model, loader, device):
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)
    model.eval()
    counts = torch.zeros(2, dtype=torch.float64, device=device)
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            counts[0] += (model(inputs).argmax(1) == targets).sum().item()
            counts[1] += targets.size(0)
    dist.all_reduce(counts)
    correct, total = counts.tolist()
    return correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    rank, world_size = setup()
    torch.manual_seed(0)
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    train_set, test_set = images(256), images(64)
    assert args.batch_size % world_size == 0
    sampler = DistributedSampler(train_set, drop_last=True)
    train_loader = DataLoader(train_set, batch_size=args.batch_size // world_size, sampler=sampler, drop_last=True)
    own = Subset(test_set, range(rank, len(test_set), world_size))
    test_loader = DataLoader(own, batch_size=args.batch_size)
    net = Net().to(device)
    model = DistributedDataParallel(net, device_ids=[device.index] if device.type == "cuda" else None)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    torch.manual_seed(rank)
    best = 0.0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for inputs, targets in train_loader:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        mean = torch.tensor(total / len(train_loader) / world_size, dtype=torch.float64, device=device)
        dist.all_reduce(mean)
        accuracy = evaluate(net, test_loader, device)
        if rank == 0:
            print(f"epoch {epoch}: loss {mean.item():.4f}, accuracy {accuracy:.4f}")
        if accuracy >= best:
            best = accuracy
            if rank == 0:
                torch.save(model.state_dict(), "best.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
)
GENERATED = "generated"
FORMS: dict[str, Options | None] = {
    "expert": None,
    GENERATED: Options(),
    "--loss global": Options(loss="global"),
    "--sampling batch": Options(sampling="batch"),
    "--sampling call": Options(sampling="call"),
}


@dataclass(frozen=True, slots=True)
class Counts:
    """What one rank does in a step: operator calls, and how often each collective is called with how many bytes."""

    operators: float
    collectives: dict[str, tuple[float, float]]  # calls and bytes

    @property
    def calls(self) -> float:
        return sum(calls for calls, _ in self.collectives.values())

    @property
    def sent(self) -> float:
        return sum(size for _, size in self.collectives.values())


class Counting(TorchDispatchMode):  # type: ignore[misc]
    """Counts every operator call of its thread, backward passes and DDP's own collective calls included."""

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0
        self.calls: Counter[str] = Counter()
        self.bytes: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            name = func.overloadpacket.__name__.rstrip("_")
            self.calls[name] += 1
            self.bytes[name] += _bytes(args)
        else:
            self.operators += 1
        return func(*args, **(kwargs or {}))

    def per_step(self, steps: int) -> dict[str, Any]:
        collectives = {name: (self.calls[name] / steps, self.bytes[name] / steps) for name in sorted(self.calls)}
        return {"operators": self.operators / steps, "collectives": collectives}


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        size: int = value.numel() * value.element_size()
        return size
    return sum(map(_bytes, value)) if isinstance(value, list | tuple) else 0


# -------------------------------------------------------------------- one rank
def _run_rank(program: Path, rank: int, world: int, port: int, counting: bool) -> None:
    """Run a program as one rank, and leave what was measured beside it; ends the process."""
    signal.alarm(SECONDS)
    os.chdir(program.parent)
    with open(f"log{rank}.txt", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    group = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in group.items()})
    epochs = 1 if counting else EPOCHS
    sys.argv, sys.path[0] = [str(program), "--epochs", str(epochs)], str(program.parent)
    torch.set_num_threads(1)
    mode, steps, found = Counting(), 0, {}

    def after_step(*_: object) -> None:
        nonlocal steps
        steps += 1
        if counting and steps == WARM_UP:
            mode.__enter__()
        if counting and steps == WARM_UP + COUNTED:
            mode.__exit__(None, None, None)
            found.update(mode.per_step(COUNTED))
        if steps == WARM_UP:
            found["start"] = _cpu()

    register_optimizer_step_post_hook(after_step)
    code = 1
    try:
        runpy.run_path(str(program), run_name="__main__")
        found["cpu"] = (_cpu() - found["start"]) / (steps - WARM_UP)
        assert steps == STEPS * epochs, steps
        Path(f"rank{rank}.json").write_text(json.dumps(found))
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    os._exit(code)  # gloo's threads may abort an orderly exit


def _cpu() -> float:
    """CPU seconds of this process, with all its threads."""
    spent = os.times()
    return spent.user + spent.system


def run(program: Path, world: int, counting: bool = False) -> list[dict[str, Any]]:
    """What every rank measured; raises where one of them failed."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = []
    for rank in range(world):
        child = os.fork()
        if child == 0:
            _run_rank(program, rank, world, port, counting)
        children.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(codes):
        logs = [(program.parent / f"log{rank}.txt").read_text() for rank in range(world)]
        raise RuntimeError(f"{program} ended with {codes}:\n" + "\n".join(logs))
    return [json.loads((program.parent / f"rank{rank}.json").read_text()) for rank in range(world)]


# -------------------------------------------------------------------- all of them
def write_programs(folder: Path) -> dict[str, Path]:
    """The expert's program and each conversion of the original, each in a folder of its own."""
    programs = {}
    for number, (form, options) in enumerate(FORMS.items()):
        place = folder / f"form{number}"
        place.mkdir()
        programs[form] = place / "train.py"
        programs[form].write_text(EXPERT if options is None else ORIGINAL)
        if options is None:
            continue
        conversion = convert_program(programs[form], options)
        if conversion.questions:
            raise RuntimeError(f"{form}: {conversion.questions[0].message}")
        for change in conversion.changes:
            Path(change.path).write_text(change.after)
    return programs


def count(program: Path, world: int) -> Counts:
    """The counts of rank 0; the other ranks must make the same collective calls."""
    ranks = run(program, world, counting=True)
    own = {name: (calls, size) for name, (calls, size) in ranks[0]["collectives"].items()}
    for other in ranks[1:]:
        calls = {name: pair[0] for name, pair in other["collectives"].items()}
        if calls != {name: pair[0] for name, pair in own.items()}:
            raise RuntimeError(f"{program}: ranks differ in their collective calls: {own}, {calls}")
    return Counts(ranks[0]["operators"], own)


def paired_ratio(programs: dict[str, Path], form: str, pairs: int, world: int) -> tuple[float, float, float, float]:
    """CPU milliseconds of a step, and its ratio to the expert's with the 95 % interval, over interleaved pairs."""
    import numpy as np
    from scipy.stats import bootstrap  # type: ignore[import-untyped, unused-ignore]

    spent: dict[str, list[float]] = {form: [], "expert": []}
    for number in range(pairs):
        for name in (form, "expert") if number % 2 else ("expert", form):
            spent[name].append(sum(rank["cpu"] for rank in run(programs[name], world)) * 1000)
    own, expert = np.array(spent[form]), np.array(spent["expert"])
    found = bootstrap(
        (own, expert),
        lambda a, b, axis=-1: np.mean(a, axis=axis) / np.mean(b, axis=axis),
        paired=True,
        vectorized=True,
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(own.mean()), float(own.mean() / expert.mean()), float(found.low), float(found.high)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--pairs", type=int, default=20, help="pairs of generated and expert (default: 20)")
    parser.add_argument("--other-pairs", type=int, default=5, help="pairs of each other form (default: 5)")
    parser.add_argument("--world", type=int, default=2)
    args = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    with tempfile.TemporaryDirectory(prefix="mgmigrate-bench-") as name:
        programs = write_programs(Path(name))
        counts = {form: count(program, args.world) for form, program in programs.items()}
        print(f"per step and rank, {args.world} gloo ranks, torch {torch.__version__}")
        print(f"{'form':18s} {'operators':>9s} {'collectives':>11s} {'KiB':>8s}  {'CPU ms':>7s}  ratio to the expert's")
        expert = counts["expert"]
        failures: list[str] = []
        print(_row("expert", expert), flush=True)
        for form in list(FORMS)[1:]:
            pairs = args.pairs if form == GENERATED else args.other_pairs
            milliseconds, ratio, low, high = paired_ratio(programs, form, pairs, args.world)
            told = f"  {milliseconds:7.1f}  {ratio:.3f} [{low:.3f}, {high:.3f}], {pairs} pairs"
            print(_row(form, counts[form]) + told, flush=True)
            if form == GENERATED:
                failures = _failures(counts[form], expert, high)
    for failure in failures:
        print(f"TOO MUCH: {failure}")
    return 1 if failures else 0


def _row(form: str, counts: Counts) -> str:
    return f"{form:18s} {counts.operators:9.1f} {counts.calls:11.2f} {counts.sent / 1024:8.1f}"


def _failures(own: Counts, expert: Counts, high: float) -> list[str]:
    found = []
    if own.collectives != expert.collectives:
        found.append(f"collectives of a step are {own.collectives}, the expert's {expert.collectives}")
    if own.operators > OPERATORS * expert.operators:
        found.append(f"{own.operators:.1f} operator calls in a step, more than 1 % above {expert.operators:.1f}")
    if high >= CPU:
        found.append(f"the CPU time's interval ends at {high:.3f}, not below {CPU}")
    return found


if __name__ == "__main__":
    sys.exit(main())
