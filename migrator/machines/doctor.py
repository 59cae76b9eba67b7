"""`mgmigrate doctor`: is this machine fit for one process per GPU?

In: a `Machine`.  Out: lines of ok, warn or fail, each with what to do.  Asks nothing itself.  Useful without a GPU too: convert,
verify and a small bench run there.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from migrator.machines.machine import DEFAULT_PORT, RANK_VARIABLES, Machine

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Line:
    """One check: what was looked at, what was found, and what to do where it is not ok."""

    level: Level
    name: str
    found: str
    remedy: str = ""


# -------------------------------------------------------------------- bounds
@dataclass(frozen=True, slots=True)
class Constant:
    """A bound of a check, and where it is from."""

    value: int
    meaning: str
    source: str


# Lowest Linux driver for a CUDA major version under minor-version compatibility.
LOWEST_DRIVER = {11: (450, 80, 2), 12: (525, 60, 13), 13: (580, 65, 6)}
LOWEST_DRIVER_SOURCE = 'NVIDIA, CUDA Toolkit Release Notes, table "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version Compatibility"'
DOCKER_SHM = Constant(64 << 20, "bytes of /dev/shm in a container by default", "Docker, `docker run --shm-size`")
SHM_WANTED = Constant(
    1 << 30,
    "free bytes of /dev/shm for the loader workers of several processes",
    "our own: two batches of 256 float32 images of 224 × 224 are 0.3 GB, prefetched for some workers",
)
OPEN_FILES_WANTED = Constant(
    4096, "open files", "our own: about one socket per rank, group and rank, and some 20 files per loader worker"
)
OPEN_FILES_LEAST = Constant(1024, "open files", "Linux's usual soft limit (systemd, DefaultLimitNOFILE)")
PROCESSES_WANTED = Constant(1024, "processes and threads", "our own: ranks, loader workers and their threads")
BUSY_PERCENT = Constant(10, "percent of a card's memory that says somebody else works there", "our own")
BUSY_UTILISATION = Constant(5, "percent of time with a kernel that says the same", "our own")
CPUS_EACH = Constant(2, "CPUs per process: one that launches kernels, one that loads data", "our own")
CONVERTER_TORCH = (2, 4)  # what generated code is written for: the extra `run` in pyproject.toml


# -------------------------------------------------------------------- checks
def examine(machine: Machine) -> list[Line]:
    """All lines, in the order in which a person would look."""
    return [line for check in CHECKS for line in check(machine)]


def _check_torch(m: Machine) -> Iterator[Line]:
    if m.torch is None:
        why = f" ({m.torch_error})" if m.torch_error else ""
        yield Line("fail", "torch", f"cannot be imported{why}", "pip install 'mgmigrate[run]', or torch's own selector")
        return
    numbers = tuple(int(n) for n in re.findall(r"\d+", m.torch)[:2])
    if numbers < CONVERTER_TORCH:
        wanted = ".".join(map(str, CONVERTER_TORCH))
        yield Line(
            "warn", "torch", f"{m.torch}, Python {m.python}", f"converted programs are written for {wanted} or newer"
        )
    else:
        yield Line("ok", "torch", f"{m.torch}, Python {m.python}")
    if not m.backends:
        yield Line("fail", "distributed", "torch.distributed is not built in", "install an official torch build")
    elif m.gpus and "nccl" not in m.backends:
        found = f"no NCCL, only {', '.join(m.backends)}"
        yield Line(
            "fail", "distributed", found, "install a CUDA build of torch; gloo moves gradients through main memory"
        )
    else:
        yield Line("ok", "distributed", ", ".join(m.backends))


def _check_gpus(m: Machine) -> Iterator[Line]:
    count = len(m.gpus)
    if not count:
        remedy = "convert, verify and a CPU bench work here; speedups must be measured on the machine that has the GPUs"
        yield Line("warn", "GPUs", "none seen (nvidia-smi lists none)", remedy)
        return
    names = sorted({gpu.name for gpu in m.gpus})
    shown = ", ".join(f"{sum(g.name == n for g in m.gpus)} × {n}" for n in names)
    if count == 1:
        yield Line(
            "warn",
            "GPUs",
            shown,
            "one GPU: DataParallel and DDP have nothing to share; nothing is gained by converting",
        )
    else:
        yield Line("ok", "GPUs", shown)
    if m.visible is not None:
        chosen = [part for part in m.visible.split(",") if part.strip()]
        if not chosen:
            yield Line(
                "fail", "visible GPUs", "CUDA_VISIBLE_DEVICES is empty: torch sees none", "unset it, or name GPUs"
            )
        elif len(chosen) < count:
            yield Line("ok", "visible GPUs", f"CUDA_VISIBLE_DEVICES={m.visible}: {len(chosen)} of {count}")
    if any(gpu.mig for gpu in m.gpus):
        remedy = "NCCL does not join MIG slices of one card: turn MIG off for multi-GPU training"
        yield Line("warn", "MIG", "enabled", remedy)


def _check_equal(m: Machine) -> Iterator[Line]:
    if len(m.gpus) < 2:
        return
    memories = [gpu.memory for gpu in m.gpus]
    if len({gpu.name for gpu in m.gpus}) > 1:
        remedy = "each step waits for the slowest card: choose equal ones, CUDA_VISIBLE_DEVICES=0,1"
        yield Line("warn", "same model", "no: " + ", ".join(f"{g.index}: {g.name}" for g in m.gpus), remedy)
    elif len(set(memories)) > 1:
        yield Line("warn", "same model", "yes, but with different memory", "the smallest card decides the batch")
    else:
        yield Line("ok", "same model", "yes")
    lowest, highest = min(memories) / 1024, max(memories) / 1024
    ranged = f"{lowest:.0f} GiB each" if lowest == highest else f"{lowest:.0f} to {highest:.0f} GiB"
    yield Line("ok", "memory", ranged)


def _check_busy(m: Machine) -> Iterator[Line]:
    busy = [
        g
        for g in m.gpus
        if g.used * 100 > BUSY_PERCENT.value * max(g.memory, 1) or g.utilisation > BUSY_UTILISATION.value
    ]
    if busy:
        found = ", ".join(f"GPU {g.index}: {g.used} of {g.memory} MiB, {g.utilisation} %" for g in busy)
        yield Line("warn", "others at work", found, "another program uses these cards: timings will not hold")
    elif m.gpus:
        yield Line("ok", "others at work", "none")


def _check_versions(m: Machine) -> Iterator[Line]:
    if m.torch is None or not m.gpus:
        return
    if m.torch_cuda is None:
        yield Line("fail", "CUDA", "torch is a CPU build, but there are GPUs", "install torch for CUDA")
        return
    major = int(m.torch_cuda.split(".")[0])
    lowest = LOWEST_DRIVER.get(major)
    driver = tuple(int(n) for n in re.findall(r"\d+", m.driver or ""))
    knows = f", which knows CUDA up to {m.driver_cuda}" if m.driver_cuda else ""
    found = f"torch for {m.torch_cuda}, driver {m.driver or 'unknown'}{knows}"
    if lowest is None or not driver:
        yield Line("warn", "driver", found, "no lowest driver is known for this CUDA: see the CUDA release notes")
    elif driver < lowest:
        wanted = ".".join(map(str, lowest))
        yield Line(
            "fail", "driver", found, f"CUDA {major} needs driver {wanted} or newer; or install torch for an older CUDA"
        )
    else:
        yield Line("ok", "driver", found)
    for name, value in (("cuDNN", m.cudnn), ("NCCL", m.nccl)):
        pinned, installed = m.wanted.get(name), m.installed.get(name)
        if value is None:
            yield Line(
                "fail", name, "torch cannot load it", "reinstall torch; a foreign LD_LIBRARY_PATH can hide its own copy"
            )
        elif pinned and installed != pinned:
            remedy = f"torch was built with {pinned}: pip install --force-reinstall torch, or the version that it names"
            yield Line("warn", name, f"{installed or 'not'} installed, torch names {pinned}", remedy)
        else:
            yield Line("ok", name, f"{value}, as this torch wants it" if pinned else f"{value}, torch's own copy")


def _check_links(m: Machine) -> Iterator[Line]:
    if len(m.gpus) < 2:
        return
    pairs = [(i, j) for i in range(len(m.links)) for j in range(i)]
    kinds = sorted({m.links[i][j] for i, j in pairs if j < len(m.links[i])})
    if not kinds:
        yield Line("warn", "topology", "nvidia-smi topo -m says nothing", "the links between the cards are not known")
    elif all(kind.startswith("NV") for kind in kinds):
        yield Line("ok", "topology", f"NVLink between all cards ({', '.join(kinds)})")
    elif "SYS" in kinds:
        remedy = "gradients cross the link between the CPU sockets: prefer cards of one socket (nvidia-smi topo -m)"
        yield Line("warn", "topology", ", ".join(kinds), remedy)
    else:
        yield Line("ok", "topology", ", ".join(kinds) + " (no NVLink between all cards)")
    blocked = [f"{i}-{j}: {m.peers[i][j]}" for i in range(len(m.peers)) for j in range(i) if m.peers[i][j] != "OK"]
    if m.environment.get("NCCL_P2P_DISABLE", "0") not in ("", "0"):
        yield Line("warn", "peer to peer", "NCCL_P2P_DISABLE is set", "unset it, unless the machine hangs without it")
    elif blocked:
        remedy = "copies go through main memory; gaming cards have no P2P, and ACS or an IOMMU in a VM can block it"
        yield Line("warn", "peer to peer", "not between " + ", ".join(blocked[:6]), remedy)
    elif m.peers:
        yield Line("ok", "peer to peer", "between all cards")


def _check_system(m: Machine) -> Iterator[Line]:
    if m.shm_total is None:
        yield Line("warn", "shared memory", "/dev/shm is not there", "loader workers need it: run with num_workers=0")
    elif m.shm_total <= DOCKER_SHM.value:
        remedy = "docker's default, too small for loader workers: docker run --ipc=host, or --shm-size=8g"
        yield Line("fail" if m.gpus else "warn", "shared memory", _gib(m.shm_total), remedy)
    elif (m.shm_free or 0) < SHM_WANTED.value:
        remedy = "loader workers of several processes share it: enlarge it (--shm-size), or use fewer workers"
        yield Line("warn", "shared memory", f"{_gib(m.shm_free or 0)} free of {_gib(m.shm_total)}", remedy)
    else:
        yield Line("ok", "shared memory", f"{_gib(m.shm_free or 0)} free of {_gib(m.shm_total)}")
    if m.open_files is not None:
        soft = m.open_files[0]
        level: Level = (
            "fail" if 0 <= soft < OPEN_FILES_LEAST.value else "warn" if 0 <= soft < OPEN_FILES_WANTED.value else "ok"
        )
        remedy = (
            ""
            if level == "ok"
            else f"ulimit -n {OPEN_FILES_WANTED.value}; each process and loader worker opens its own"
        )
        yield Line(level, "open files", _bound(soft), remedy)
    if m.processes is not None:
        low = 0 <= m.processes[0] < PROCESSES_WANTED.value
        remedy = f"ulimit -u {PROCESSES_WANTED.value}: processes, loader workers and threads count" if low else ""
        yield Line("warn" if low else "ok", "processes", _bound(m.processes[0]), remedy)


def _gib(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def _bound(limit: int) -> str:
    return "no limit" if limit < 0 or limit > 1 << 40 else f"at most {limit}"


def _check_network(m: Machine) -> Iterator[Line]:
    if m.port_free:
        yield Line("ok", "port", f"{DEFAULT_PORT} is free")
    else:
        remedy = "torchrun --standalone takes a free port; several jobs on one machine: --rdzv-endpoint=localhost:0"
        yield Line("warn", "port", f"{DEFAULT_PORT} is taken: another run may be going on", remedy)
    if not m.host_resolves:
        yield Line(
            "warn", "host name", "does not resolve", "add it to /etc/hosts, or set MASTER_ADDR and GLOO_SOCKET_IFNAME"
        )
    stale = [name for name in ("MASTER_ADDR", "MASTER_PORT", *RANK_VARIABLES) if name in m.environment]
    if stale:
        yield Line(
            "warn",
            "environment",
            f"{', '.join(stale)} set outside torchrun",
            "unset them: a lone run would wait for others",
        )
    chosen = [f"{k}={v}" for k, v in sorted(m.environment.items()) if k.startswith("NCCL_") and k != "NCCL_P2P_DISABLE"]
    if chosen:
        yield Line("ok", "NCCL settings", ", ".join(chosen))


def _check_cpu(m: Machine) -> Iterator[Line]:
    processes = max(1, len(m.gpus))
    threads = m.environment.get("OMP_NUM_THREADS", "")
    if processes > 1 and m.cpus < CPUS_EACH.value * processes:
        remedy = "fewer than two CPUs per process: loaders and launches of kernels compete; lower num_workers"
        yield Line("warn", "CPUs", f"{m.cpus} for {processes} processes", remedy)
    else:
        yield Line("ok", "CPUs", f"{m.cpus}")
    if m.load > m.cpus:
        yield Line("warn", "load", f"{m.load:.1f} on {m.cpus} CPUs", "others compute here: timings will not hold")
    else:
        yield Line("ok", "load", f"{m.load:.1f}")
    if threads.isdigit() and int(threads) * processes > m.cpus:
        remedy = f"OMP_NUM_THREADS={max(1, m.cpus // processes)}: each of the processes starts that many"
        yield Line("warn", "OMP threads", f"{threads} × {processes} processes on {m.cpus} CPUs", remedy)
    elif threads:
        yield Line("ok", "OMP threads", threads)
    else:
        remedy = f"torchrun sets 1 where it is unset; OMP_NUM_THREADS={max(1, m.cpus // processes)} may serve better"
        yield Line("ok", "OMP threads", "not set", remedy if processes > 1 else "")


def _check_accelerate(m: Machine) -> Iterator[Line]:
    if m.accelerate is None:
        yield Line("warn", "accelerate", "not installed", "pip install accelerate, for --to accelerate only")
    else:
        yield Line("ok", "accelerate", m.accelerate)


CHECKS: tuple[Callable[[Machine], Iterator[Line]], ...] = (
    _check_torch,
    _check_accelerate,
    _check_gpus,
    _check_equal,
    _check_busy,
    _check_versions,
    _check_links,
    _check_system,
    _check_network,
    _check_cpu,
)


# -------------------------------------------------------------------- showing
def to_text(lines: list[Line]) -> str:
    """One line each; the remedy below what is not ok."""
    width = max((len(line.name) for line in lines), default=0)
    shown = []
    for line in lines:
        shown.append(f"{line.level:<4}  {line.name:<{width}}  {line.found}")
        if line.remedy:
            shown.append(f"{'':<4}  {'':<{width}}  → {line.remedy}")
    counts = {level: sum(line.level == level for line in lines) for level in ("ok", "warn", "fail")}
    shown.append(f"{counts['ok']} ok, {counts['warn']} to look at, {counts['fail']} that will fail")
    return "\n".join(shown) + "\n"


def to_json(machine: Machine, lines: list[Line]) -> str:
    """The lines and everything that they were drawn from."""
    document = {
        "version": 1,
        "lines": [dataclasses.asdict(line) for line in lines],
        "machine": dataclasses.asdict(machine),
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
