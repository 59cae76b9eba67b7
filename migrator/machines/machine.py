"""What a machine says of itself: GPUs, driver, links, versions, limits.

In: nothing.  Out: a frozen `Machine`, read once.  Nothing is changed, no CUDA context is made (GPUs are asked through nvidia-smi), and
every wait has a limit; what cannot be asked is left empty.
"""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

ASK_SECONDS = 20.0
# torchrun's and init_process_group's port where none is named (PyTorch, "torchrun (Elastic Launch)").
DEFAULT_PORT = 29500
RANK_VARIABLES = ("RANK", "LOCAL_RANK", "WORLD_SIZE")


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU as nvidia-smi lists it; memory in MiB, utilisation in percent."""

    index: int
    name: str
    uuid: str
    memory: int
    used: int
    utilisation: int
    mig: bool = False


@dataclass(frozen=True, slots=True)
class Machine:
    """Everything that the checks look at, read once.  None: not there, or could not be read."""

    system: str
    python: str
    cpus: int  # that this process may use
    load: float  # one-minute load average
    torch: str | None
    torch_error: str  # why torch could not be imported
    torch_cuda: str | None  # CUDA that torch was built for
    cudnn: str | None
    nccl: str | None
    backends: tuple[str, ...]  # of torch.distributed
    wanted: Mapping[str, str]  # cuDNN and NCCL that this torch names as its own, by name
    installed: Mapping[str, str]  # of those, what is installed
    accelerate: str | None
    driver: str | None
    driver_cuda: str | None  # newest CUDA that the driver knows
    gpus: tuple[Gpu, ...]
    visible: str | None  # CUDA_VISIBLE_DEVICES
    links: tuple[tuple[str, ...], ...]  # nvidia-smi topo -m: how GPU i reaches GPU j
    peers: tuple[tuple[str, ...], ...]  # nvidia-smi topo -p2p r: OK, NS, CNS, ..
    shm_total: int | None  # bytes of /dev/shm
    shm_free: int | None
    open_files: tuple[int, int] | None  # soft, hard
    processes: tuple[int, int] | None
    port_free: bool  # DEFAULT_PORT on this host
    host_resolves: bool
    environment: Mapping[str, str]  # variables of OMP, MKL, NCCL, GLOO, MASTER, torchrun


# -------------------------------------------------------------------- reading
def read_machine(with_torch: bool = True) -> Machine:
    """Ask the machine; whatever cannot be asked is left empty.  Without torch: only its version, and nothing is imported."""
    gpus, driver = _gpus()
    torch_facts = _torch() if with_torch else {**_NO_TORCH, "torch": _version("torch")}
    shm = _shm()
    return Machine(
        system=platform.system(),
        python=platform.python_version(),
        cpus=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
        load=os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0,
        wanted=_wanted(),
        installed={name: found for name, package in _packages().items() if (found := _version(package))},
        accelerate=_version("accelerate"),
        driver=driver,
        driver_cuda=_driver_cuda() if driver else None,
        gpus=gpus,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        links=parse_matrix(_ask("nvidia-smi", "topo", "-m") or "") if len(gpus) > 1 else (),
        peers=parse_matrix(_ask("nvidia-smi", "topo", "-p2p", "r") or "") if len(gpus) > 1 else (),
        shm_total=shm[0],
        shm_free=shm[1],
        open_files=_limit("RLIMIT_NOFILE"),
        processes=_limit("RLIMIT_NPROC"),
        port_free=_port_free(DEFAULT_PORT),
        host_resolves=_host_resolves(),
        environment={
            k: v
            for k, v in os.environ.items()
            if k.startswith(("OMP_", "MKL_NUM", "NCCL_", "GLOO_", "MASTER_", "TORCHELASTIC_")) or k in RANK_VARIABLES
        },
        **torch_facts,
    )


def _ask(*words: str) -> str | None:
    if shutil.which(words[0]) is None:
        return None
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=ASK_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _gpus() -> tuple[tuple[Gpu, ...], str | None]:
    fields = "index,name,uuid,memory.total,memory.used,utilization.gpu,mig.mode.current,driver_version"
    said = _ask("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits")
    return parse_gpus(said or "")


def parse_gpus(said: str) -> tuple[tuple[Gpu, ...], str | None]:
    """GPUs and driver version from nvidia-smi's CSV; fields that a card does not know are [N/A]."""
    gpus, driver = [], None
    for row in csv.reader(said.splitlines(), skipinitialspace=True):
        if len(row) == 8 and row[0].strip().isdigit():
            index, name, uuid, total, used, busy, mig, driver = (value.strip() for value in row)
            gpus.append(Gpu(int(index), name, uuid, _number(total), _number(used), _number(busy), mig == "Enabled"))
    return tuple(gpus), driver


def read_gpus() -> tuple[tuple[Gpu, ...], tuple[tuple[str, ...], ...]]:
    """Only the GPUs and how they are linked."""
    gpus, _ = _gpus()
    return gpus, parse_matrix(_ask("nvidia-smi", "topo", "-m") or "") if len(gpus) > 1 else ()


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _driver_cuda() -> str | None:
    found = re.search(r"CUDA Version:\s*([\d.]+)", _ask("nvidia-smi") or "")
    return found[1] if found else None


def parse_matrix(said: str) -> tuple[tuple[str, ...], ...]:
    """The GPU rows and GPU columns of `nvidia-smi topo -m` or `-p2p`."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", said)
    rows = [line.split() for line in plain.splitlines() if re.match(r"\s*GPU\d+\s+(?!GPU)", line)]
    return tuple(tuple(row[1 : len(rows) + 1]) for row in rows)


_NO_TORCH: dict[str, Any] = {
    "torch": None,
    "torch_error": "",
    "torch_cuda": None,
    "cudnn": None,
    "nccl": None,
    "backends": (),
}


def _torch() -> dict[str, Any]:
    empty = dict(_NO_TORCH)
    try:
        import torch
        import torch.distributed as dist
    except Exception as error:  # a broken install fails in many ways
        return {**empty, "torch_error": f"{type(error).__name__}: {error}"[:200]}
    with contextlib.suppress(Exception):
        cudnn = torch.backends.cudnn.version()
        empty["cudnn"] = str(cudnn) if cudnn else None
    with contextlib.suppress(Exception):
        empty["nccl"] = ".".join(map(str, torch.cuda.nccl.version()))
    backends = [name for name in ("nccl", "gloo", "mpi") if dist.is_available() and dist.is_backend_available(name)]
    return {**empty, "torch": torch.__version__, "torch_cuda": torch.version.cuda, "backends": tuple(backends)}


def _packages() -> dict[str, str]:
    """Wheels that torch brings cuDNN and NCCL in, by library: `nvidia-nccl-cu13`.  Empty for a torch that has its own in it."""
    try:
        rows = importlib.metadata.requires("torch") or []
    except importlib.metadata.PackageNotFoundError:
        return {}
    found = (re.match(r"nvidia-(cudnn|nccl)-cu\d+", row) for row in rows)
    return {{"cudnn": "cuDNN", "nccl": "NCCL"}[one[1]]: one[0] for one in found if one}


def _wanted() -> dict[str, str]:
    """The versions that torch's own metadata pins (`nvidia-nccl-cu13==2.30.7`)."""
    packages = _packages()
    pinned = {}
    for row in importlib.metadata.requires("torch") or [] if packages else []:
        for name, package in packages.items():
            exact = re.match(rf"{package}\s*\(?==\s*([\w.]+)", row)
            if exact:
                pinned[name] = exact[1]
    return pinned


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _shm() -> tuple[int | None, int | None]:
    try:
        usage = shutil.disk_usage("/dev/shm")
    except OSError:
        return None, None
    return usage.total, usage.free


def _limit(name: str) -> tuple[int, int] | None:
    try:
        import resource

        return resource.getrlimit(getattr(resource, name))
    except (ImportError, AttributeError, OSError):
        return None


def _port_free(port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _host_resolves() -> bool:
    try:
        socket.getaddrinfo(socket.gethostname(), None)
    except OSError:
        return False
    return True
