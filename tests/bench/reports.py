"""Reports as fixtures: recorded-looking runs on four GPUs, and one way to change each of them."""

from dataclasses import replace

from benchmarks.results import Communication, DeviceMemory, Environment, Report, Run, Variant, Window, Work

GB = 10**9
WORK = Work(256, 64, 8, "float32", True, False, "SGD", 25600)


def run(rate: float, number: int = 0, spread: float = 0.01, batch: int = 256, **changed) -> Run:
    """One run of three windows around a throughput, 20 steps each."""
    rates = [rate * (1 + spread * k) for k in (-1, 0, 1)]
    values = dict(
        round=number,
        windows=tuple(Window(20, 20.0 * batch, 20 * batch / r) for r in rates),
        step_ms=tuple(batch / r * 1000 for r in rates for _ in range(20)),
        left_out=0,
        first_step_s=9.0,
        loader_wait=0.01,
        hook_share=0.001,
        cpu_share=0.6,
        load_before=1.0,
        memory=(DeviceMemory("cuda:0", 20 * GB, 22 * GB, 23 * GB, 80 * GB),),
        utilisation_pct=(93.0,),
        clocks_mhz=(1410.0,),
    )
    return Run(**{**values, **changed})


def variant(name: str, rate: float, devices: int = 4, work: Work = WORK, **changed) -> Variant:
    processes = devices if name not in ("single", "dp") else 1
    return Variant(
        name,
        name,
        "measured",
        devices,
        processes,
        work=work,
        runs=tuple(run(rate * f, i, **changed) for i, f in enumerate((0.99, 1, 1.01))),
    )


MEMORY = tuple(DeviceMemory(f"cuda:{i}", None, None, (40 if i == 0 else 20) * GB, 80 * GB) for i in range(4))
FOUR = Report(
    program="train.py",
    command="mgmigrate bench train.py --to ddp",
    created="2026-01-01T00:00:00+00:00",
    device="cuda",
    source="measured",
    environment=Environment(
        gpus=("NVIDIA A100-SXM4-80GB",) * 4,
        topology="NV12",
        p2p=True,
        driver="580.95.05",
        torch="2.14.1",
        cpus=64,
        load=1.0,
    ),
    variants=(
        variant("single", 1000, 1),
        replace(variant("dp", 2400, memory=MEMORY)),
        replace(
            variant("ddp", 3700),
            communication=Communication(10, 4, 6, 15, 6, 60, 10, 50, 2, 66, 3, "cuda:0", "trace", ()),
        ),
    ),
    model="resnet50",
    warmup_steps=10,
    steps_per_window=20,
    windows_per_run=3,
    rounds=3,
)


def changed(name: str, **fields) -> Report:
    """FOUR with one variant changed."""
    return replace(FOUR, variants=tuple(replace(v, **fields) if v.name == name else v for v in FOUR.variants))
