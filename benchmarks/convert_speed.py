"""How fast the converter is, as ratios to programs that everybody has, measured in one run.

Whole processes are measured by their CPU time (user and system, all their threads), interleaved, and compared by medians,
so that the figures hold on a busy machine too.  `make bench` prints the table; exit code 1 when a "must" does not hold.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM_LINES = 400
TREE_FILES, TREE_HITS = 2000, 4
HELLO = """\
import typer

app = typer.Typer()


@app.command()
def hello(name: str) -> None:
    print(f"Hello {name}")


if __name__ == "__main__":
    app()
"""
IN_PROCESS = """\
import statistics, sys, time
from pathlib import Path
import libcst
from codemods.options import Options
from migrator.convert.pipeline import convert_program

entry, rounds = Path(sys.argv[1]), int(sys.argv[2])
text = entry.read_text()
convert_program(entry, Options())
parse, convert = [], []
for _ in range(rounds):
    start = time.process_time()
    libcst.parse_module(text)
    middle = time.process_time()
    convert_program(entry, Options())
    parse.append(middle - start)
    convert.append(time.process_time() - middle)
print(statistics.median(convert), statistics.median(parse))
"""


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured figure with its limits: a ratio, or MiB."""

    name: str
    value: float
    must: float
    aim: float
    detail: str

    @property
    def holds(self) -> bool:
        return self.value <= self.must


def process_cost(words: Sequence[str], folder: Path) -> tuple[float, float]:
    """CPU seconds and peak memory (MiB) of a process and its children; a failure to run is an error, an exit code is not."""
    silent = subprocess.DEVNULL
    with subprocess.Popen(words, cwd=folder, env=environment(folder), stdout=silent, stderr=silent) as child:
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    if not 0 <= child.returncode <= 3:
        raise RuntimeError(f"{' '.join(words)} ended with {child.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def compare(ours: Sequence[str], theirs: Sequence[str], folder: Path, rounds: int) -> tuple[float, float, float]:
    """Median CPU seconds of both commands, run in turns, and the peak memory of ours."""
    process_cost(ours, folder), process_cost(theirs, folder)  # byte code and disk caches
    own, other, memory = [], [], 0.0
    for _ in range(rounds):
        cpu, peak = process_cost(ours, folder)
        own.append(cpu)
        memory = max(memory, peak)
        other.append(process_cost(theirs, folder)[0])
    return statistics.median(own), statistics.median(other), memory


def program_text(lines: int = PROGRAM_LINES) -> str:
    """A training program of that many lines: the reference trainer, with more model classes in the middle."""
    text = (ROOT / "reference_trainers" / "resnet_dp.py").read_text()
    head, separator, tail = text.partition("\n\n\ndef ")
    block = (
        "\n\n\nclass Block{0}(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n"
        "        self.first = nn.Linear(width, width)\n        self.second = nn.Linear(width, width)\n\n"
        "    def forward(self, x):\n        x = torch.relu(self.first(x))\n        return x + self.second(x)"
    )
    blocks, number = "", 0
    while (text.count("\n") + blocks.count("\n")) < lines:
        blocks += block.format(number)
        number += 1
    return head + blocks + separator + tail


def make_tree(folder: Path) -> None:
    """2,000 Python files of ordinary size (200 lines on average), of which a few are DataParallel programs."""
    plain = (
        "import os\nimport sys\n\n\nclass Thing:\n    def __init__(self, name):\n        self.name = name\n\n"
        "    def path(self, *parts):\n        return os.path.join(self.name, *parts)\n"
    )
    helper = "\n\ndef work_{0}(items, limit={0}):\n    total = 0\n    for item in items:\n        if item.size > limit:\n            total += item.size\n    return total, sys.maxsize\n"
    for number in range(TREE_FILES):
        place = folder / f"package_{number % 40}" / f"module_{number}.py"
        place.parent.mkdir(exist_ok=True)
        body = plain + "".join(helper.format(n) for n in range(number % 49))
        if number % 5 == 0:
            body += '\n\nif __name__ == "__main__":\n    print(Thing("x").path())\n'
        place.write_text(body)
    program = program_text(0)
    for number in range(TREE_HITS):
        (folder / f"package_{number}" / f"train_{number}.py").write_text(program)


def measure(folder: Path, rounds: int) -> list[Figure]:
    """The table of the issue."""
    bin_folder = Path(sys.executable).parent
    tool = [str(bin_folder / "mgmigrate")]
    (folder / "train.py").write_text(program_text())
    (folder / "hello.py").write_text(HELLO)
    (folder / "tree").mkdir()
    make_tree(folder / "tree")
    convert = [*tool, "convert", "train.py", "--to", "ddp"]
    noop = [sys.executable, "-m", "libcst.tool", "codemod", "-j", "1", "noop.NOOPCommand", str(folder / "train.py")]
    own, other, memory = compare(convert, noop, folder, rounds)
    figures = [Figure("convert a 400-line program / libcst no-op codemod", own / other, 1.25, 0.75, _times(own, other))]
    page = [*tool, "review", "train.py", "--no-open", "--output", "review.html"]
    own, other, _ = compare(page, convert, folder, rounds)
    figures.append(Figure("review of the same program / convert", own / other, 1.5, 1.35, _times(own, other)))
    words = [sys.executable, "-c", IN_PROCESS, "train.py", str(rounds)]
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True, env=environment(folder))
    inside, parse = map(float, done.stdout.split())
    figures.append(Figure("in-process convert / libcst.parse_module", inside / parse, 6.0, 3.5, _times(inside, parse)))
    own, other, _ = compare([*tool, "--help"], [sys.executable, "hello.py", "--help"], folder, rounds)
    figures.append(Figure("mgmigrate --help / typer hello world", own / other, 1.3, 1.0, _times(own, other)))
    ruff = [str(bin_folder / "ruff"), "check", "--no-cache", "--quiet", "--isolated", "tree"]
    own, other, _ = compare([*tool, "scan", "tree"], ruff, folder, rounds)
    figures.append(Figure("scan of 2,000 files / ruff check --no-cache", own / other, 1.5, 1.0, _times(own, other)))
    figures.append(Figure("peak memory of convert, MiB", memory, 64.0, 48.0, ""))
    return figures


def environment(folder: Path) -> dict[str, str]:
    """The user's environment, with byte code kept (in the scratch folder) for all programs alike, as after an installation."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), env.get("PYTHONPATH", "")])
    env["PYTHONPYCACHEPREFIX"] = str(folder / "byte-code")
    return env


def _times(own: float, other: float) -> str:
    return f"{own:.3f} s / {other:.3f} s"


def table(figures: Sequence[Figure]) -> str:
    rows = [("figure", "measured", "must", "aim", "", "")]
    for f in figures:
        verdict = "aim" if f.value <= f.aim else "must" if f.holds else "TOO SLOW" if f.detail else "TOO LARGE"
        rows.append((f.name, f"{f.value:.2f}", f"≤ {f.must:g}", f"{f.aim:g}", verdict, f.detail))
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)


def main(
    measured: Callable[[Path, int], list[Figure]] = measure,
    name: str = "python -m benchmarks.convert_speed",
    about: str = "Speed of the converter.",
    rounds: int = 7,
) -> int:
    """Measure and print; a figure that does not hold is exit code 1."""
    parser = argparse.ArgumentParser(prog=name, description=about)
    parser.add_argument("--rounds", type=int, default=rounds, help=f"runs of each command (default: {rounds})")
    args = parser.parse_args()
    start = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="mgmigrate-bench-"))
    try:
        figures = measured(folder, args.rounds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(table(figures))
    print(f"({args.rounds} rounds, {time.monotonic() - start:.0f} s)")
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
