"""Start one run of one variant, wait with a limit, and leave nothing behind.

In: a `Plan`, a folder and limits.  Out: what each rank wrote, or a `RunFailed` with the program's own error.  Each run is a session
of its own; every process of it carries a mark in its environment, and what bears the mark is ended at the end, also what left the
session.  Never imports torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.search import is_out_of_memory

RUN = Path(__file__).resolve().parent / "inside" / "run.py"
MARK = "MGMIGRATE_BENCH_RUN"
POLL = 0.05
GRACE = 20.0  # seconds for the other ranks after the first has failed or has written
LOG_TAIL = 8192
_NOISE = re.compile(
    r"^\s*$|^[WIE]\d{4} |USDT:|DeviceProperties|torch/distributed/|ChildFailedError|^\s*[-=]{10,}|^\s+\^+\s*$"
)


class RunFailed(Exception):
    """A run that gave no figures; the message is the program's error, or what became of it."""

    def __init__(self, message: str, out_of_memory: bool = False):
        super().__init__(message)
        self.out_of_memory = out_of_memory


@dataclass(frozen=True, slots=True)
class Measuring:
    """How long to look: steps before the first window, steps per window, windows, steps of the profile (0: none)."""

    warmup: int
    steps: int
    windows: int
    profile_steps: int = 0
    workers: int | None = None  # loader workers of all processes together; None: as the program wants
    timeout: float = 600.0
    fake_data: int = 0  # samples that stand in for torchvision's data sets; 0: the program's own data
    prelude: str = ""  # Python text that each process runs before the program

    @property
    def total(self) -> int:
        return self.warmup + self.steps * self.windows + (self.profile_steps + 2 if self.profile_steps else 0)


@dataclass(frozen=True, slots=True)
class Plan:
    """One variant: what to start, and with which environment."""

    name: str
    title: str
    devices: int
    processes: int
    device: str  # cuda or cpu
    entry: str  # relative to the copied project
    files: Mapping[str, bytes]  # converted files, relative to the copied project
    launcher: str = "python"  # python, torchrun or accelerate
    visible: str | None = None  # CUDA_VISIBLE_DEVICES
    whole_batches: bool = False  # each rank reads the whole global batch (the split at the call)
    environment: Mapping[str, str] = field(default_factory=dict)
    module: str | None = None  # run as `python -m`
    path: str | None = None  # the folder that `-m` finds it in, relative to the copied project
    precision: str = "no"  # accelerate's mixed precision
    policies: tuple[str, ...] = ()
    note: str = ""  # what a reader has to know about the program that was run
    pretend_cuda: bool = False  # on a CPU, redirect to it what a program asks of "cuda"
    device_batch: int | None = None  # samples of each device instead of the program's own number

    @property
    def rows(self) -> int | None:
        """Samples that one process is to get in a batch."""
        if self.device_batch is None:
            return None
        return self.device_batch * (self.devices if self.processes == 1 or self.whole_batches else 1)


def command_of(plan: Plan, settings: Path, port: int = 0) -> list[str]:
    """The command line of a run: python, torchrun or accelerate launch, with our starter in the place of the program."""
    python = [sys.executable]
    script = [str(RUN), str(settings)]
    if plan.launcher == "torchrun":
        return [*python, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={plan.processes}", *script]
    if plan.launcher == "accelerate":
        options = [
            "--num_processes",
            str(plan.processes),
            "--num_machines",
            "1",
            "--mixed_precision",
            plan.precision,
            "--dynamo_backend",
            "no",
        ]
        several = ["--multi_gpu"] if plan.processes > 1 else []
        return [
            *python,
            "-m",
            "accelerate.commands.launch",
            *several,
            *options,
            "--main_process_port",
            str(port),
            *script,
        ]
    return [*python, "-u", *script]


def shown_command(plan: Plan, arguments: Sequence[str]) -> str:
    """The command as the user would give it."""
    program = f"-m {plan.module}" if plan.module else Path(plan.entry).name
    words = " ".join([program, *arguments])
    if plan.launcher == "torchrun":
        return f"torchrun --standalone --nproc_per_node={plan.processes} {'' if plan.module else '-- '}{words}"
    if plan.launcher == "accelerate":
        mixed = "" if plan.precision == "no" else f"--mixed_precision {plan.precision} "
        return f"accelerate launch --num_processes {plan.processes} {mixed}{words}"
    return f"python {words}"


def start(
    plan: Plan,
    measuring: Measuring,
    copy: Path,
    cwd: Path,
    folder: Path,
    arguments: Sequence[str],
    watch: Callable[[int], None] | None = None,
) -> list[dict[str, Any]]:
    """Run to the end of the last window; gives the ranks' documents.  `watch` is told the steps done.  Raises `RunFailed`."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = folder / "settings.json"
    token = uuid.uuid4().hex
    settings.write_text(
        json.dumps(
            {
                "folder": str(folder),
                "variant": plan.name,
                "entry": str(copy / plan.entry),
                "module": plan.module,
                "path": None if plan.path is None else str(copy / plan.path),
                "pretend_cuda": plan.pretend_cuda,
                "rows": plan.rows,
                "fake_data": measuring.fake_data,
                "prelude": measuring.prelude,
                "arguments": list(arguments),
                "device": plan.device,
                "warmup": measuring.warmup,
                "steps": measuring.steps,
                "windows": measuring.windows,
                "profile_steps": measuring.profile_steps,
                "workers": measuring.workers,
                "launcher": os.getpid(),
                "started": time.time(),
            }
        )
    )
    environment = {
        k: v
        for k, v in os.environ.items()
        if k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    }
    environment.update(plan.environment)
    environment.update({MARK: token, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"})
    environment.setdefault("OMP_NUM_THREADS", "1")  # as torchrun does for several processes, and the same on all sides
    if plan.visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = plan.visible
    log = folder / "log.txt"
    # Launcher and program leave their scratch files here; in `folder` the path may be too long for a socket.
    scratch = tempfile.TemporaryDirectory(prefix="mgmigrate-run-", ignore_cleanup_errors=True)
    with scratch, log.open("wb") as out:
        environment["TMPDIR"] = scratch.name
        process = subprocess.Popen(
            command_of(plan, settings, _free_port()),
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            ended = _wait(process, plan, folder, measuring.timeout, watch)
        finally:
            end_run(process, token)
    return _documents(plan, measuring, folder, log, ended, process.returncode)


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _wait(
    process: subprocess.Popen[bytes], plan: Plan, folder: Path, timeout: float, watch: Callable[[int], None] | None
) -> bool:
    """True when the run came to an end by itself, False at the time-out."""
    limit = time.monotonic() + timeout
    hurried = False
    while process.poll() is None:
        if watch is not None:
            watch(_steps_done(folder))
        if time.monotonic() > limit:
            return hurried
        if not hurried:
            written = len(list(folder.glob("rank.*.json")))
            if written >= plan.processes or any(folder.glob("error.*.json")):
                hurried = True
                limit = min(limit, time.monotonic() + GRACE)
        time.sleep(POLL)
    return True


def _steps_done(folder: Path) -> int:
    """Steps that rank 0 has counted so far."""
    with contextlib.suppress(OSError, ValueError):
        return int((folder / "steps").read_bytes() or b"0")
    return 0


def end_run(process: subprocess.Popen[bytes], token: str) -> None:
    """End the session, then every process that bears the run's mark."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    limit = time.monotonic() + 10.0
    while time.monotonic() < limit:
        left = marked(token)
        if not left:
            break
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(10.0)


def marked(token: str) -> list[int]:
    """Living processes that carry the mark; only Linux tells (elsewhere the session has to do)."""
    mark = f"{MARK}={token}".encode()
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (entry / "environ").read_bytes().split(b"\0") and int(entry.name) != os.getpid():
                if (entry / "stat").read_text().rpartition(")")[2].split()[0] != "Z":
                    found.append(int(entry.name))
    return found


def _documents(
    plan: Plan, measuring: Measuring, folder: Path, log: Path, ended: bool, code: int | None
) -> list[dict[str, Any]]:
    errors = [json.loads(path.read_text()) for path in sorted(folder.glob("error.*.json"))]
    if errors:
        # The first cause, not the connections that broke because of it.
        errors.sort(key=lambda e: any(word in e["message"] for word in ("Connection", "DistBackendError", "peer")))
        no_memory = any(is_out_of_memory(e["message"]) for e in errors)
        said = f"; it last said: {tail(log)}" if errors[0]["kind"] == "SystemExit" else ""
        raise RunFailed(f"{errors[0]['message']}, after {errors[0]['steps']} steps{said}", no_memory)
    documents = [json.loads(path.read_text()) for path in folder.glob("rank.*.json")]
    documents.sort(key=lambda d: d["rank"])
    if len(documents) < plan.processes:
        if not ended:
            raise RunFailed(f"not finished after {measuring.timeout:.0f} s (--timeout); it last said: {tail(log)}")
        missing = plan.processes - len(documents)
        who = f"{missing} of {plan.processes} processes" if plan.processes > 1 else "the program"
        said = tail(log)
        told = f"{who} ended with code {code} and without a word; the log ends: {said}"
        raise RunFailed(told, is_out_of_memory(said))
    short = min(len(d["windows"]) for d in documents)
    if short == 0:
        steps = min(d["count"] for d in documents)
        if steps == 0:
            raise RunFailed(
                "the program took no optimizer step through torch.optim in the process that was started: it cannot be timed by steps"
            )
        raise RunFailed(
            f"the program ended after {steps} optimizer steps; warm-up and one window need {measuring.warmup + measuring.steps}: "
            "train for longer, or lower --warmup and --steps"
        )
    return documents


def tail(log: Path, lines: int = 3) -> str:
    """The last lines of a log that say something."""
    try:
        data = log.read_bytes()[-LOG_TAIL:]
    except OSError:
        return "(nothing)"
    said = [line.strip() for line in data.decode(errors="replace").splitlines() if not _NOISE.search(line)]
    return " | ".join(said[-lines:])[-600:] or "(nothing)"
