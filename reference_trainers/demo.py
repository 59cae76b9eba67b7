"""`make demo`: convert the ResNet trainer, train before and after on real data, check that training is the same.

Works in a temporary folder, needs no GPU and no network, and takes about three minutes of CPU time. Prints the diff,
one line per check and a table of the runs. Exit code 0 when every check holds, 1 when one fails, 2 for wrong options.
A training run is judged by what it wrote: gloo processes now and then abort at exit, after their work is done.
"""

import argparse
import contextlib
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).resolve().parent.parent
SOURCE = Path("reference_trainers") / "resnet_dp.py"
EPOCHS = 5
BATCH_SIZE = 64
TRAINING = ["--arch", "resnet8", "--batch-size", str(BATCH_SIZE), "--lr", "0.05", "--workers", "0"]
ACCURACY_NEEDED = 95.0  # percent of the validation digits
ACCURACY_APART = 3.0  # percentage points between two runs; one image in 297 is 0.34


class StepFailed(Exception):
    """A check of the demo does not hold; the message says which and shows what the program printed last."""


@dataclass(frozen=True, slots=True)
class Finished:
    """What a child process said and took; seconds of wall time and of CPU time (all its processes)."""

    code: int
    stdout: str
    stderr: str
    wall: float
    cpu: float

    def tail(self, lines: int = 15) -> str:
        return "\n".join((self.stdout + self.stderr).strip().splitlines()[-lines:])


@dataclass(frozen=True, slots=True)
class Training:
    """One training run: its name in the table, what the process took, and its last checkpoint."""

    name: str
    process: Finished
    checkpoint: dict[str, Any]

    @property
    def accuracies(self) -> list[float]:
        """Validation accuracy after each epoch, in percent, as printed."""
        return [float(value) for value in re.findall(r"^ \* Acc@1 ([\d.]+)", self.process.stdout, re.M)]


def run(command: Sequence[str | Path], cwd: Path, env: dict[str, str], timeout: float) -> Finished:
    """Run a command to its end; at the time-out its whole process group is killed and StepFailed raised."""
    words = [str(word) for word in command]
    shown = ["python" if word == sys.executable else word for word in words]
    print(f"\n$ {shlex.join(shown)}", flush=True)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with subprocess.Popen(
        words, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as child:
        try:
            stdout, stderr = child.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            raise StepFailed(f"not finished after {timeout:.0f} s: {shlex.join(shown)}") from None
        finally:  # also after Ctrl-C, and for workers that outlive their launcher
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Finished(child.returncode, stdout, stderr, time.monotonic() - start, cpu)


def check(holds: bool, claim: str, process: Finished | None = None) -> None:
    if not holds:
        raise StepFailed(claim + (f"; it exited with {process.code}:\n{process.tail()}" if process else ""))
    print(f"  ok: {claim}", flush=True)


def convert(env: dict[str, str], folder: Path) -> Path:
    """Print the diff and the summary, then write the converted program into the folder and return its path."""
    command = [sys.executable, "-m", "migrator", "convert", SOURCE, "--to", "ddp"]
    shown = run(command, ROOT, env, 60)
    print(shown.stdout)
    print(shown.stderr)
    check(shown.code == 0 and "DistributedDataParallel" in shown.stdout, "converted, nothing left for a person", shown)

    written = run([*command, "--output", folder], ROOT, env, 60)
    converted = folder / SOURCE.name
    check(written.code == 0 and converted.is_file(), f"wrote {converted.name} into a folder of its own", written)
    return converted


def train(
    name: str, launch: Sequence[str | Path], folder: Path, env: dict[str, str], epochs: int, options: Sequence[str] = ()
) -> Training:
    """Train to the last epoch and check that the program wrote and said everything once; folder is its --out."""
    command = [*launch, *TRAINING, "--epochs", str(epochs), "--out", folder.name, *options]
    process = run(command, folder.parent, env, 300)
    path = folder / "checkpoint.pth.tar"
    checkpoint = torch.load(path, map_location="cpu", weights_only=True) if path.is_file() else {"epoch": 0}
    check(checkpoint["epoch"] == epochs, f"{name}: trained to epoch {epochs}", process)
    if process.code:
        print(f"  note: {name}: its work is done, but it exited with {process.code}")
    training = Training(name, process, checkpoint)
    first_epoch = epochs - len(training.accuracies)
    starts = re.findall(r"^Epoch \[(\d+)\]\[0/", process.stdout, re.M)
    once = starts == [str(epoch) for epoch in range(first_epoch, epochs)]
    files = sorted(re.sub(r"tfevents.*", "tfevents", path.name) for path in folder.iterdir())
    expected = ["checkpoint.pth.tar", "events.out.tfevents", "model_best.pth.tar"]
    if not options:
        check(files == expected, f"{name}: one checkpoint, one best model, one tensorboard log", process)
    check(once, f"{name}: every epoch printed once", process)
    best = checkpoint["best_acc1"]
    check(best >= ACCURACY_NEEDED, f"{name}: {best:.2f} % accuracy, at least {ACCURACY_NEEDED:.0f} %", process)
    return training


def print_table(trainings: Sequence[Training]) -> None:
    print(f"\n{'run':<34}{'epochs':>7}{'last acc':>10}{'best acc':>10}{'wall s':>8}{'CPU s':>8}")
    for training in trainings:
        print(
            f"{training.name:<34}{training.checkpoint['epoch']:>7}{training.accuracies[-1]:>10.2f}"
            f"{training.checkpoint['best_acc1']:>10.2f}{training.process.wall:>8.1f}{training.process.cpu:>8.1f}"
        )


def demo(folder: Path, devices: int, env: dict[str, str]) -> None:
    print("== 1. Convert: the diff and the summary")
    converted = convert(env, folder / "converted")

    print("\n== 2. Train before and after, on scikit-learn's handwritten digits")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={devices}", "--"]
    before = train("original", [sys.executable, ROOT / SOURCE], folder / "before", env, EPOCHS)
    on_all = train(f"converted, {devices} processes", [*torchrun, converted], folder / "after", env, EPOCHS)
    alone = train("converted, alone under python", [sys.executable, converted], folder / "alone", env, EPOCHS)
    for after in (on_all, alone):
        apart = abs(after.checkpoint["best_acc1"] - before.checkpoint["best_acc1"])
        check(apart <= ACCURACY_APART, f"{after.name}: {apart:.2f} points from the original's accuracy", after.process)
        same_keys = list(after.checkpoint["state_dict"]) == list(before.checkpoint["state_dict"])
        check(same_keys, f"{after.name}: its checkpoint has the original's keys", after.process)

    print("\n== 3. The original's checkpoint in the converted program")
    resume = ["--resume", str(folder / "before" / "checkpoint.pth.tar")]
    evaluated = run([*torchrun, converted, *TRAINING, *resume, "--evaluate"], folder, env, 120)
    printed = re.findall(r"^ \* Acc@1 ([\d.]+)", evaluated.stdout, re.M)
    check(
        len(printed) == 1 and abs(float(printed[0]) - before.accuracies[-1]) < 0.01,
        f"evaluates to the original's {before.accuracies[-1]:.2f} %, printed once",
        evaluated,
    )
    resumed = train("converted, resumed", [*torchrun, converted], folder / "resumed", env, EPOCHS + 1, resume)
    check(len(resumed.accuracies) == 1, f"resumes: one more epoch, from {EPOCHS} to {EPOCHS + 1}", resumed.process)
    print_table([before, on_all, alone, resumed])
    if not torch.cuda.is_available() or env.get("CUDA_VISIBLE_DEVICES") == "":
        print("No GPUs are used here: DataParallel only passes through, and the times say nothing about a speedup.")

    print(f"\n== 4. Verify: the same training, step by step, on {devices} simulated GPUs")
    command = [sys.executable, "-m", "migrator", "verify", SOURCE, converted, "--devices", str(devices)]
    verified = run([*command, "--steps", "6", "--", *TRAINING, "--epochs", "1"], ROOT, env, 300)
    print(verified.stdout + verified.stderr)
    check(verified.code == 0 and "EQUAL" in verified.stdout + verified.stderr, "verify says EQUAL", verified)

    on_gpus = torch.cuda.is_available() and env.get("CUDA_VISIBLE_DEVICES") != ""
    print(f"\n== 5. Bench: before and after, on {'the GPUs' if on_gpus else f'the CPU, {devices} processes'}")
    command = [sys.executable, "-m", "migrator", "bench", "--reference", "small", "--rounds", "1"]
    where = ["--gpus", "all"] if on_gpus else ["--gpus", "none", "--processes", str(devices)]
    measured = run([*command, *where], ROOT, env, 600)
    print(measured.stdout)
    check(measured.code == 0 and "samples/s" in measured.stdout, "every form was measured", measured)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m reference_trainers.demo", description="The demo of mgmigrate.")
    parser.add_argument("--devices", type=int, default=2, help="processes of the converted program (default: 2)")
    parser.add_argument(
        "--keep", metavar="DIR", type=Path, help="work in this folder, which must not exist, and keep it"
    )
    args = parser.parse_args()
    if args.devices < 2 or BATCH_SIZE % args.devices:
        parser.error(f"--devices {args.devices}: at least 2, and a divisor of the batch of {BATCH_SIZE}")
    env = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1"), "PYTHONUNBUFFERED": "1"}
    if torch.cuda.is_available() and torch.cuda.device_count() < args.devices:
        env["CUDA_VISIBLE_DEVICES"] = ""  # one process per GPU: fewer GPUs than processes means the CPU for all runs
    start = time.monotonic()
    with contextlib.ExitStack() as stack:
        if args.keep:
            try:
                args.keep.mkdir(parents=True)
            except OSError as error:
                parser.error(f"--keep {args.keep}: {error.strerror}")
            folder = args.keep.resolve()
        else:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mgmigrate-demo-"))).resolve()
        try:
            demo(folder, args.devices, env)
        except StepFailed as failure:
            print(f"\nFAILED: {failure}", flush=True)
            return 1
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = children.ru_utime + children.ru_stime
    print(f"\nAll checks hold ({time.monotonic() - start:.0f} s, {cpu:.0f} s of CPU time).")
    return 0


if __name__ == "__main__":
    sys.exit(main())
