"""Machines as fixtures: four equal GPUs, two unequal ones, none."""

from dataclasses import replace

from migrator.machines.machine import Gpu, Machine

GIB = 1 << 30


def gpu(index: int, name: str = "NVIDIA A100-SXM4-80GB", memory: int = 81920, used: int = 4) -> Gpu:
    return Gpu(index, name, f"GPU-{index}", memory, used, 0)


NONE = Machine(
    system="Linux",
    python="3.11.7",
    cpus=2,
    load=0.4,
    torch="2.14.1+cpu",
    torch_error="",
    torch_cuda=None,
    cudnn=None,
    nccl=None,
    backends=("gloo",),
    wanted={},
    installed={},
    accelerate="1.15.0",
    driver=None,
    driver_cuda=None,
    gpus=(),
    visible=None,
    links=(),
    peers=(),
    shm_total=8 * GIB,
    shm_free=8 * GIB,
    open_files=(65536, 65536),
    processes=(-1, -1),
    port_free=True,
    host_resolves=True,
    environment={},
)
FOUR = replace(
    NONE,
    cpus=64,
    torch="2.14.1+cu130",
    torch_cuda="13.0",
    cudnn="91300",
    nccl="2.28.3",
    backends=("nccl", "gloo"),
    driver="580.95.05",
    driver_cuda="13.0",
    gpus=tuple(gpu(i) for i in range(4)),
    links=tuple(tuple("X" if i == j else "NV12" for j in range(4)) for i in range(4)),
    peers=tuple(tuple("X" if i == j else "OK" for j in range(4)) for i in range(4)),
)
UNEQUAL = replace(
    FOUR,
    cpus=8,
    driver="535.104.05",
    driver_cuda="12.2",
    gpus=(gpu(0, "NVIDIA GeForce RTX 4090", 24564), gpu(1, "NVIDIA GeForce RTX 3090", 24576)),
    links=(("X", "SYS"), ("SYS", "X")),
    peers=(("X", "CNS"), ("CNS", "X")),
    shm_total=64 << 20,
    shm_free=64 << 20,
    open_files=(1024, 4096),
)
