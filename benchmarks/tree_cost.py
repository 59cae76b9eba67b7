"""What whole trees cost, as ratios measured in one run.

A tree has to cost what its programs cost, two processes not much more than one, memory stays bounded whatever lies in the
tree, and a pathological file is passed over with a reason.  CPU time is that of whole processes with their children, commands
take turns and medians are compared, so that the figures hold on a busy machine too; memory is the largest sum over all
processes of a command (proportional set size).  `make bench` prints the table; exit code 1 when a "must" does not hold.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.convert_speed import Figure, environment, main, make_tree, process_cost, program_text

PROGRAMS = 50
IN_ONE_PROCESS = (
    "import sys, migrator.trees.convert\nmigrator.trees.convert.ENOUGH = 10**9\nfrom migrator.__main__ import main\n"
    "sys.argv[0] = 'mgmigrate'\nmain()\n"
)
LOOP_MODULE = """\
def train(model, loader, criterion, optimizer):
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
SHORT = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from {module} import train


def main():
    data = TensorDataset(torch.randn(256, 8), torch.randint(2, (256,)))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model = nn.DataParallel(nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(10):
        train(model, loader, nn.CrossEntropyLoss(), optimizer)
        torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
"""
PATHOLOGICAL = {
    "many_lines.py": "# DataParallel\n" + "x = 1\n" * 100_000,
    "long_line.py": "# DataParallel\nx = [" + "1, " * 300_000 + "]\n",
    "deep_calls.py": "# DataParallel\nx = a" + ".b()" * 20_000 + "\n",
    "deep_sum.py": "# DataParallel\nx = " + "1 + " * 5_000 + "1\n",
    "deep_tests.py": "# DataParallel\nif a == 0:\n    pass\n" + "elif a == 1:\n    pass\n" * 5_000,
    "deep_brackets.py": "# DataParallel\nx = " + "[" * 10_000 + "]" * 10_000 + "\n",
    "many_statements.py": "# DataParallel\n" + "a = b + c * d\n" * 25_000,
}


def measure(folder: Path, rounds: int) -> list[Figure]:
    """Cost of a large tree, of two processes, of memory, and of files that are passed over."""
    tool = [str(Path(sys.executable).parent / "mgmigrate"), "convert", "--to", "ddp"]
    one = [sys.executable, "-c", IN_ONE_PROCESS, "convert", "--to", "ddp"]
    large = folder / "large"
    large.mkdir()
    make_tree(large)
    hits = sorted(str(path.relative_to(folder)) for path in large.rglob("train_*.py"))
    many = folder / "many"
    _make_programs(many, PROGRAMS)
    few = folder / "few"
    _make_programs(few, 3)
    bad = folder / "bad"
    _make_programs(bad, 3)
    for name, text in PATHOLOGICAL.items():
        (bad / name).write_text(text)
    _check_passed_over([*tool, "bad"], folder)
    whole, alone = _medians([[*tool, "large"], [*tool, *hits]], folder, rounds)
    two, single = _medians([[*tool, "many"], [*one, "many"]], folder, max(1, rounds // 2))
    worst, plain = _medians([[*tool, "bad"], [*tool, "few"]], folder, rounds)
    each = (worst - plain) / len(PATHOLOGICAL)
    memory = max(peak_memory([*tool, name], folder) for name in ("large", "many", "bad"))
    return [
        Figure("convert of a tree of 2,000 files / of its 4 programs", whole / alone, 1.15, 1.05, _times(whole, alone)),
        Figure(f"two processes / one, for {PROGRAMS} programs", two / single, 1.1, 1.0, _times(two, single)),
        Figure(
            "CPU seconds of a pathological file",
            each,
            1.0,
            0.5,
            f"{worst:.2f} s for {len(PATHOLOGICAL)} more than {plain:.2f} s",
        ),
        Figure("peak memory of convert of these trees, MiB", memory, 300.0, 200.0, ""),
    ]


def peak_memory(words: Sequence[str], folder: Path) -> float:
    """The largest proportional set size (MiB) of a command and its children together, looked at every few milliseconds."""
    silent = subprocess.DEVNULL
    most = 0
    with subprocess.Popen(words, cwd=folder, env=environment(folder), stdout=silent, stderr=silent) as child:
        while child.poll() is None:
            most = max(most, sum(_set_size(pid) for pid in _family(child.pid)))
            time.sleep(0.005)
    return most / 1024


def _family(pid: int) -> list[int]:
    """A process and all below it."""
    found = [pid]
    for one in found:
        try:
            found += map(int, Path(f"/proc/{one}/task/{one}/children").read_text().split())
        except OSError:
            continue  # it has ended
    return found


def _set_size(pid: int) -> int:
    """Proportional set size of a process in KiB; 0 when it has ended."""
    try:
        rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(row.split()[1]) for row in rows if row.startswith("Pss:"))


def _medians(commands: Sequence[Sequence[str]], folder: Path, rounds: int) -> list[float]:
    """Median CPU seconds of commands that take turns."""
    taken: list[list[float]] = [[] for _ in commands]
    process_cost([*commands[0][:-1], "few"], folder)  # byte code
    for _ in range(rounds):
        for command, seconds in zip(commands, taken, strict=True):
            seconds.append(process_cost(command, folder)[0])
    return [statistics.median(seconds) for seconds in taken]


def _make_programs(folder: Path, number: int) -> None:
    """Small programs of two files each, in a folder each, and one of ordinary size."""
    for n in range(number - 1):
        place = folder / f"program_{n}"
        place.mkdir(parents=True)
        (place / f"steps_{n}.py").write_text(LOOP_MODULE)
        (place / "train.py").write_text(SHORT.format(module=f"steps_{n}"))
    (folder / "train_large.py").write_text(program_text(0))


def _check_passed_over(words: Sequence[str], folder: Path) -> None:
    """Every pathological file is named with a reason, and what can be converted is."""
    done = subprocess.run(words, cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=600)
    silent = [name for name in PATHOLOGICAL if f"{os.path.join('bad', name)}:" not in done.stderr]
    if done.returncode != 3 or silent or "Traceback" in done.stderr or "internal error" in done.stderr:
        raise RuntimeError(f"exit code {done.returncode}, not spoken of: {silent}\n{done.stderr[-2000:]}")


def _times(own: float, other: float) -> str:
    return f"{own:.2f} s / {other:.2f} s"


if __name__ == "__main__":
    sys.exit(main(measure, "python -m benchmarks.tree_cost", "Cost of whole trees.", 5))
