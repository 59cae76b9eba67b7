"""The figures of the articles that this project starts from, typed in as runs (mission.md, "The figures the articles report").

They are held against each other and against published runs by the same code as measured ones:

    python -m benchmarks.articles
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.results import Claim, Communication, DeviceMemory, Environment, Report, Run, Variant, Window, Work

_GB = 10**9
_CARDS = Environment(gpus=("NVIDIA A100 80GB PCIe",) * 4)


def _typed(
    name: str,
    title: str,
    devices: int,
    samples_per_s: float,
    step_s: float | None = None,
    memory_gb: tuple[float, ...] = (),
    batch: float | None = None,
    utilisation: tuple[float, ...] = (),
) -> Variant:
    memory = tuple(DeviceMemory(f"cuda:{i}", None, None, int(m * _GB), 80 * _GB) for i, m in enumerate(memory_gb))
    seconds = step_s if step_s is not None else 1.0
    run = Run(
        round=0,
        windows=(Window(1, samples_per_s * seconds, seconds),),
        step_ms=(step_s * 1000,) if step_s is not None else (),
        left_out=0,
        first_step_s=None,
        loader_wait=None,
        hook_share=None,
        cpu_share=None,
        load_before=None,
        memory=memory,
        utilisation_pct=utilisation,
    )
    each = batch / devices if batch else None
    work = Work(batch, each, None, None, None, None, None, None) if batch else None
    processes = devices if name == "ddp" else 1
    return Variant(name, title, "typed", devices, processes, work=work, runs=(run,))


RESNET50 = Report(
    program="ResNet-50 (the articles)",
    command="typed in",
    created="",
    device="cuda",
    source="typed",
    environment=_CARDS,
    model="resnet50",
    variants=(
        _typed("single", "one GPU", 1, 211, 9.47, (24,), 2048),
        _typed("dp", "DataParallel", 4, 582, 3.51, (48,), 2048, (40,)),
        _typed("ddp", "DistributedDataParallel", 4, 1743, 1.17, (22, 22, 22, 22), 2048),
    ),
    claims=(
        Claim("dp", "speedup", 2.7, "the article"),
        Claim("dp", "scaling_efficiency_pct", 27, "the article"),
        Claim("ddp", "speedup", 8.1, "the article"),
        Claim("ddp", "scaling_efficiency_pct", 81, "the article"),
    ),
    notes=("the article gives the DataParallel memory of the main card only, and a GPU utilisation of 35 to 45 %",),
)
BERT_LARGE = Report(
    program="BERT-large (the articles)",
    command="typed in",
    created="",
    device="cuda",
    source="typed",
    environment=_CARDS,
    model="bert-large",
    variants=(
        _typed("dp", "DataParallel", 4, 18, None, (56,), 512),
        _typed("ddp", "DistributedDataParallel", 4, 63, None, (73.6,) * 4, 896),
    ),
    notes=("memory is the article's 70 % and 92 % of 80 GB; the sequence length is not given",),
)


def _shared(name: str, title: str, sync_ms: float, share_pct: float) -> Variant:
    """A form of which only the time and the share of communication are stated: together they imply its step."""
    step_ms = sync_ms / share_pct * 100
    typed = _typed(name, title, 4, BERT_BASE_BATCH / step_ms * 1000, step_ms / 1000, batch=BERT_BASE_BATCH)
    exchanged = Communication(
        total_ms=sync_ms,
        exposed_ms=sync_ms,
        overlapped_ms=0.0,
        share_pct=share_pct,
        exposed_pct=share_pct,
        overlap_pct=0.0,
        gradient_sync_ms=sync_ms,
        compute_ms=step_ms - sync_ms,
        idle_ms=0.0,
        step_ms=step_ms,
        steps=1,
        device="cuda:0",
        method="stated",
    )
    return replace(typed, communication=exchanged)


BERT_BASE_BATCH = 1024
BERT_BASE = Report(
    program="BERT-base (the articles)",
    command="typed in",
    created="",
    device="cuda",
    source="typed",
    environment=_CARDS,
    model="bert-base",
    variants=(
        _shared("dp", "DataParallel", 210, 38),
        _shared("ddp", "DistributedDataParallel", 47, 9),
    ),
    notes=(
        "steps and samples/s are implied by what is stated (210 ms are 38 % of a step, 47 ms are 9 %), not stated themselves: DDP would then "
        "be hardly faster; if the 9 % are the exposed part only, the article does not say how much is hidden",
    ),
)

if __name__ == "__main__":
    from benchmarks.show import to_text

    print(*map(to_text, (RESNET50, BERT_BASE, BERT_LARGE)), sep="\n")
