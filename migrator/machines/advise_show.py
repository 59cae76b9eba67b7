"""An advice as text and as JSON, labelled as an estimate.

In: an `Advice` and the `Reading` behind it.  Out: text.
"""

from __future__ import annotations

import dataclasses
import json
import textwrap
from collections.abc import Iterator, Sequence

from migrator.machines.advise import NAMES, Advice, gb
from migrator.machines.advise_reading import Reading
from migrator.machines.estimates import (
    KNOWN_MODELS,
    KNOWN_SOURCE,
    PRETRAINED_MODELS,
    PRETRAINED_SOURCE,
    Bytes,
    Constant,
    Setting,
)

WIDTH = 118


def to_text(advice: Advice, reading: Reading) -> str:
    lines = [f"Advice: {NAMES[advice.form]}"]
    if advice.runner_up:
        lines.append(f"Next best: {NAMES[advice.runner_up]}")
    lines += ["", "Why", *_listed(advice.reasons)]
    lines += ["", "The articles' thresholds", *_listed(advice.thresholds)]
    if advice.bytes is not None and advice.setting is not None:
        lines += ["", *_byte_lines(advice.setting, advice.bytes)]
    if advice.bounds:
        lines += ["", "Estimates, not measurements"]
        for bound in advice.bounds:
            lines.append(f"  {bound.name}: {_short(bound.low)} to {_short(bound.high)} {bound.unit}")
            lines += _listed(bound.assumptions, "    assuming ")
    lines += ["", "Not known", *_listed(advice.unknown)]
    lines += ["", "A speedup is a measurement: mgmigrate bench train.py --to ddp, on the machine that has the GPUs."]
    return "\n".join(lines) + "\n"


def _listed(items: Sequence[str], mark: str = "  - ") -> list[str]:
    """One entry each, wrapped below its first word."""
    indent = " " * len(mark)
    wrapper = textwrap.TextWrapper(WIDTH, initial_indent=mark, subsequent_indent=indent, break_on_hyphens=False)
    return [line for one in items for line in wrapper.wrap(one)]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}" if value < 10 else f"{value:.1f}"


def _byte_lines(setting: Setting, size: Bytes) -> Iterator[str]:
    yield f"Bytes, for {setting.parameters:,} parameters in float32, {setting.optimizer}, {setting.nodes} × {setting.gpus} cards"
    rows = [
        ("parameters", size.parameters, "4 × parameters"),
        ("gradients", size.gradients, "4 × parameters"),
        (
            "optimizer state",
            size.optimizer,
            {"adam": "8", "momentum": "4", "sgd": "0"}[setting.optimizer] + " × parameters",
        ),
    ]
    if setting.nodes == 1 and setting.gpus > 1:
        rows += [
            (
                "DataParallel, main card",
                size.dp_main + (size.dp_gather or 0),
                "all three, and the gathered outputs where known",
            ),
            ("DataParallel, other cards", size.dp_other, "a copy of the parameters per step"),
            ("main card's excess", size.main_excess, "the difference"),
            ("DataParallel, moved per step", size.dp_moved, "2 (N-1) × 4 × parameters through the main card"),
        ]
        if size.dp_gather is not None:
            rows.append(
                ("DataParallel, gathered per step", size.dp_gather, "global batch × bytes of one sample's outputs")
            )
    if setting.world > 1:
        rows += [
            ("DDP, each card", size.ddp_each, "all three, and gradient buckets"),
            ("DDP, sent per card and step", size.ddp_moved, "2 (N-1)/N × 4 × parameters, a ring"),
            ("FSDP, each card", size.fsdp_each, "all three over N, and the layer in use"),
        ]
    for name, value, how in rows:
        yield f"  {name:<32} {gb(value):>10}   {how}"


def to_json(advice: Advice, reading: Reading) -> str:
    document = {
        "version": 1,
        "label": "estimate, not measured",
        **dataclasses.asdict(advice),
        "reading": dataclasses.asdict(reading),
        "sources": [dataclasses.asdict(one) for one in sources()],
    }
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def sources() -> list[Constant]:
    """Every constant that an advice can rest on."""
    from migrator.machines import estimates

    found: list[Constant] = []
    for value in vars(estimates).values():
        items = value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else (value,)
        flat = [part for item in items for part in (item if isinstance(item, tuple) else (item,))]
        found += [item for item in flat if isinstance(item, Constant)]
    known = [Constant(c, "parameters", n, KNOWN_SOURCE) for n, c in KNOWN_MODELS.items()]
    return found + known + [Constant(c, "parameters", n, PRETRAINED_SOURCE) for n, c in PRETRAINED_MODELS.items()]
