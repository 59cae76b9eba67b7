"""The header of a report: machine, versions, commit, load.

In: the request, and what doctor read of the machine.  Out: an `Environment`; what is not known stays empty.
"""

from __future__ import annotations

import contextlib
import os
import platform
import subprocess
from collections.abc import Mapping
from pathlib import Path

from benchmarks.forms import Request
from benchmarks.results import Environment
from migrator.machines.machine import Machine


def read_environment(request: Request, machine: Machine, versions: Mapping[str, str | None]) -> Environment:
    """The header of a report.  `load` is what it was before the first run; versions are those that a measured process saw."""
    used = {gpu.index for gpu in request.gpus}
    pairs = [(i, j) for i in sorted(used) for j in sorted(used) if j < i]
    links = sorted({machine.links[i][j] for i, j in pairs if i < len(machine.links) and j < len(machine.links[i])})
    peers = {machine.peers[i][j] for i, j in pairs if i < len(machine.peers) and j < len(machine.peers[i])}
    gpu = bool(request.gpus)
    return Environment(
        gpus=tuple(one.name for one in request.gpus),
        topology=", ".join(links) or None,
        p2p=peers == {"OK"} if peers else None,
        driver=machine.driver if gpu else None,
        cuda=versions.get("cuda", machine.torch_cuda) if gpu else None,
        cudnn=versions.get("cudnn", machine.cudnn) if gpu else None,
        nccl=versions.get("nccl", machine.nccl) if gpu else None,
        torch=versions.get("torch", machine.torch),
        accelerate=machine.accelerate,
        python=machine.python,
        cpu=_cpu_name(),
        cpus=machine.cpus,
        load=machine.load,
        commit=_commit(request.program),
        omp_threads=os.environ.get("OMP_NUM_THREADS", "1 (set by bench)"),
    )


def _cpu_name() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or None


def _commit(program: Path) -> str | None:
    """The commit of the program's repository, marked where the work tree differs from it."""
    folder = program.resolve().parent
    try:
        words = ["git", "-C", str(folder), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
