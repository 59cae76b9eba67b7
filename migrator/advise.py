"""`mgmigrate advise`: which form fits a program and its machines, and why.

In: what was read from a program (`Reading`; nothing is executed) and a `Setting`.  Out: an `Advice`: the form, the runner-up,
reasons, the articles' thresholds judged, byte arithmetic and ranges.  Bounds, not promises: a speedup is never promised
without a measurement.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from migrator.estimates import (
    ARTICLE_CARDS,
    ARTICLE_LARGE,
    ARTICLE_SMALL,
    BUCKET,
    DP_SPEEDUP,
    FULL,
    KNOWN_MODELS,
    KNOWN_SOURCE,
    PRETRAINED_MODELS,
    PRETRAINED_SOURCE,
    TIGHT,
    Bound,
    Bytes,
    Constant,
    Optimizer,
    Setting,
    bounds,
    count_bytes,
)

Form = Literal["stay", "ddp", "accelerate", "fsdp", "model-parallel"]
NAMES: dict[str, str] = {
    "stay": "stay as it is",
    "ddp": "DistributedDataParallel under torchrun (mgmigrate convert --to ddp)",
    "accelerate": "Hugging Face accelerate (mgmigrate convert --to accelerate)",
    "fsdp": "FSDP (torch.distributed.fsdp.fully_shard): by hand, or accelerate with FSDP turned on",
    "model-parallel": "model parallel: torch.distributed.pipelining or tensor parallelism (torch.distributed.rpc for custom "
    "communication): by hand",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What a program's text says, each with its place ("file:line")."""

    wraps: tuple[str, ...] = ()
    trains: bool = True
    devices: tuple[tuple[str, str], ...] = ()  # fixed devices inside module classes: (cuda:1, place)
    branches: tuple[str, ...] = ()  # `if` in a forward that depends on its inputs
    frameworks: tuple[tuple[str, str], ...] = ()  # accelerate, transformers.Trainer, lightning, fsdp, deepspeed, rpc
    optimizers: tuple[str, ...] = ()
    models: tuple[tuple[str, int, str], ...] = ()  # known model built by name: (name, parameters, place)


@dataclass(frozen=True, slots=True)
class Advice:
    """What to do, why, and the figures behind it."""

    form: Form
    runner_up: Form | None
    reasons: tuple[str, ...]
    thresholds: tuple[str, ...]
    bytes: Bytes | None
    bounds: tuple[Bound, ...]
    setting: Setting | None
    unknown: tuple[str, ...] = field(default=())


# -------------------------------------------------------------------- reading
_FRAMEWORKS = {
    "accelerate": re.compile(r"^accelerate(\.|$)"),
    "transformers.Trainer": re.compile(r"^transformers\.(\w+\.)*(Seq2Seq)?Trainer$"),
    "lightning": re.compile(r"^(pytorch_lightning|lightning)(\.|$)"),
    "fsdp": re.compile(r"^torch\.distributed\.(fsdp|_composable\.fsdp)"),
    "deepspeed": re.compile(r"^deepspeed(\.|$)"),
    "rpc": re.compile(r"^torch\.distributed\.(rpc|pipelining|pipeline)"),
}
_CARD = re.compile(r"^cuda:(\d+)$")


def read_trees(trees: list[tuple[str, ast.Module, dict[str, str]]]) -> Reading:
    """Read modules: (path, tree, imported name -> qualified name).  Wraps are the converter's to find; they are not here."""
    found = [_read(*one) for one in trees]
    return Reading(
        devices=tuple(d for one in found for d in one.devices),
        branches=tuple(d for one in found for d in one.branches),
        frameworks=tuple({f: p for one in reversed(found) for f, p in one.frameworks}.items()),
        optimizers=tuple(dict.fromkeys(o for one in found for o in one.optimizers)),
        models=tuple({n: (n, c, p) for one in found for n, c, p in one.models}.values()),
    )


def _read(path: str, tree: ast.Module, imports: dict[str, str]) -> Reading:
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and _is_module(node)]
    return Reading(
        devices=tuple(d for node in classes for d in _devices(path, node)),
        branches=tuple(b for node in classes for b in _branches(path, node)),
        frameworks=tuple(
            (name, path) for name, pattern in _FRAMEWORKS.items() if any(pattern.match(q) for q in imports.values())
        ),
        optimizers=tuple(dict.fromkeys(_optimizers(tree))),
        models=tuple(_models(path, tree)),
    )


def _is_module(node: ast.ClassDef) -> bool:
    return any("Module" in ast.unparse(base) for base in node.bases) or any(
        isinstance(one, ast.FunctionDef) and one.name == "forward" for one in node.body
    )


def _devices(path: str, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """`.to("cuda:1")`, `.cuda(1)` and `torch.device("cuda:1")` inside a module class."""
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not call.args or not isinstance(call.args[0], ast.Constant):
            continue
        value, name = call.args[0].value, ast.unparse(call.func).rpartition(".")[2]
        card = _CARD.match(value) if isinstance(value, str) else None
        if card and name in ("to", "device"):
            yield f"cuda:{card[1]}", f"{path}:{call.lineno}"
        elif name == "cuda" and isinstance(value, int) and not isinstance(value, bool):
            yield f"cuda:{value}", f"{path}:{call.lineno}"


def _branches(path: str, node: ast.ClassDef) -> Iterator[str]:
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and method.name == "forward":
            inputs = {a.arg for a in [*method.args.args, *method.args.kwonlyargs]} - {"self"}
            for test in ast.walk(method):
                if isinstance(test, ast.If) and _asks_values(test.test, inputs) and _calls_parts(test):
                    yield f"{path}:{test.lineno}"


def _asks_values(test: ast.expr, inputs: set[str]) -> bool:
    """True where the test reads an input and is more than `x is None` or `self.training`."""
    if isinstance(test, ast.Compare) and all(isinstance(o, (ast.Is, ast.IsNot)) for o in test.ops):
        return False
    return any(isinstance(n, ast.Name) and n.id in inputs for n in ast.walk(test))


def _calls_parts(branch: ast.If) -> bool:
    """True where a branch runs some part of the module, so that another part may get no gradient."""
    return any(
        isinstance(n, ast.Call) and ast.unparse(n.func).startswith("self.")
        for part in branch.body
        for n in ast.walk(part)
    )


def _optimizers(tree: ast.Module) -> Iterator[str]:
    for call in ast.walk(tree):
        if isinstance(call, ast.Call):
            name = ast.unparse(call.func).rpartition(".")[2]
            if name in ("Adam", "AdamW", "NAdam", "RAdam", "Adamax"):
                yield "adam"
            elif name in ("SGD", "RMSprop"):
                yield "momentum"


def _models(path: str, tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Known models: built by a call, or named in a string."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func).rpartition(".")[2]
            if name in KNOWN_MODELS:
                yield name, KNOWN_MODELS[name], f"{path}:{node.lineno}"
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) < 60:
            for name, count in PRETRAINED_MODELS.items():
                if re.search(rf"(^|/){name}(-(un)?cased)?$", node.value):
                    yield name, count, f"{path}:{node.lineno}"


# -------------------------------------------------------------------- choosing
def parse_count(text: str) -> int:
    """1.3B, 350M, 110e6, 25557032.  Raises ValueError."""
    found = re.fullmatch(r"\s*([\d.,_]+(?:[eE]\d+)?)\s*([KMBGT]?)\s*", text, re.IGNORECASE)
    if not found:
        raise ValueError(f"{text!r}: give a number of parameters, such as 350M or 1.3B")
    factor = {"": 1, "K": 1e3, "M": 1e6, "B": 1e9, "G": 1e9, "T": 1e12}[found[2].upper()]
    count = int(float(found[1].replace(",", "").replace("_", "")) * factor)
    if count < 1:
        raise ValueError(f"{text!r}: a model has at least one parameter")
    return count


def advise(
    reading: Reading, setting: Setting | None, gpus: int, nodes: int, portable: bool = False, link: str = "pcie"
) -> Advice:
    """Choose a form.  `setting` None: the number of parameters is not known, and only the structure speaks."""
    size = count_bytes(setting) if setting is not None else None
    form, runner_up, reasons = _choose(reading, setting, size, gpus, nodes, portable)
    unknown = []
    if setting is None:
        unknown.append("the number of parameters: give --params")
    elif setting.memory is None:
        unknown.append("the cards' memory: give --memory (GB of one card)")
    if setting is not None and size is not None and size.dp_gather is None:
        unknown.append("the bytes that DataParallel gathers: give --batch and --output-bytes (of one sample's outputs)")
    unknown.append(
        "activations, which often need more memory than all of the above: measure with mgmigrate bench --max-batch"
    )
    return Advice(
        form,
        runner_up,
        tuple(reasons),
        tuple(_thresholds(setting, gpus, nodes)),
        size,
        tuple(bounds(setting, link)) if setting is not None else (),
        setting,
        tuple(unknown),
    )


def _choose(
    reading: Reading, setting: Setting | None, size: Bytes | None, gpus: int, nodes: int, portable: bool
) -> tuple[Form, Form | None, list[str]]:
    cards = {card for card, _ in reading.devices}
    world = gpus * nodes
    names = {name for name, _ in reading.frameworks}
    if len(cards) > 1:
        place = reading.devices[0][1]
        why = f"one module has parts on {len(cards)} devices ({', '.join(sorted(cards))}; {place})"
        return (
            "model-parallel",
            "fsdp",
            [
                f"{why}: a wrapper that copies the module to each card would have to copy cards",
                "if the parts were only spread because they did not fit, FSDP does that without a plan of places",
            ],
        )
    if names & {"fsdp", "deepspeed", "rpc"}:
        used = ", ".join(sorted(names & {"fsdp", "deepspeed", "rpc"}))
        return "stay", None, [f"the program uses {used} already: it is past DataParallel"]
    if not reading.trains:
        return (
            "stay",
            "ddp",
            ["the program only evaluates: no gradients are exchanged, and nothing is gained in training"],
        )
    if world < 2:
        return (
            "stay",
            "ddp",
            ["one card: there is nothing to share; the converted program would run alone, at the same speed"],
        )
    reasons: list[str] = []
    if nodes > 1:
        reasons.append(f"{nodes} machines: DataParallel ends at one machine's door")
    fits = True
    if size is not None and setting is not None and setting.memory:
        share = size.ddp_each / setting.memory
        shown = f"parameters, gradients, buckets and optimizer need {gb(size.ddp_each)} of {gb(setting.memory)} per card ({share:.0%})"
        if share > FULL.value:
            sharded = size.fsdp_each / setting.memory
            fits = False
            reasons.append(f"{shown}: above the {FULL.value:.0%} at which plain data parallelism ends in practice")
            if sharded > FULL.value:
                reasons.append(
                    f"sharded over {world} cards they still take {sharded:.0%}: more cards, or offloading, or a split model"
                )
                return "model-parallel", "fsdp", reasons
            reasons.append(f"sharded over {world} cards they take {gb(size.fsdp_each)} ({sharded:.0%})")
        elif share > TIGHT.value:
            reasons.append(
                f"{shown}: it fits, but leaves little to activations; FSDP is the way out if the batch does not fit"
            )
        else:
            reasons.append(f"{shown}: it fits on each")
    if not fits:
        return "fsdp", "model-parallel", reasons
    if size is not None and setting is not None and nodes == 1:
        more = f" + {gb(size.dp_gather)} of gathered outputs" if size.dp_gather else ""
        reasons.append(
            f"under DataParallel the main card holds {gb(size.main_excess)} more than each other card (gradients, optimizer{more}), "
            f"and {gb(size.dp_moved)} pass through it in each step, none of it behind computation"
        )
        reasons.append(
            f"DDP sends {gb(size.ddp_moved)} per card, most of it behind the backward pass, in buckets of {BUCKET.value / 2**20:.0f} MiB"
        )
    elif nodes == 1:
        reasons.append(
            "one process per card: no copying of the module in each step, no main card, no shared interpreter lock"
        )
    if reading.branches:
        reasons.append(
            f"a forward pass branches on its inputs ({reading.branches[0]}): ranks may use different parts in one step; DDP needs "
            "find_unused_parameters=True then, which no longer calls for an RPC framework"
        )
    if names & {"transformers.Trainer", "lightning"}:
        used = ", ".join(sorted(names & {"transformers.Trainer", "lightning"}))
        reasons.append(f"the program uses {used}, which does this itself when torchrun starts it: drop the wrap")
        return "ddp", "accelerate", reasons
    if "accelerate" in names or portable:
        why = (
            "uses accelerate already"
            if "accelerate" in names
            else "is to run unchanged on CPUs, one or many cards, or other hardware"
        )
        reasons.append(f"the program {why}")
        return "accelerate", "ddp", reasons
    return "ddp", "accelerate", reasons


def _thresholds(setting: Setting | None, gpus: int, nodes: int) -> Iterator[str]:
    """The articles' rule of choice on this case, and where it no longer holds."""
    count = setting.parameters if setting is not None else None
    small, large, cards = int(ARTICLE_SMALL.value), int(ARTICLE_LARGE.value), int(ARTICLE_CARDS.value)
    slow, quick = DP_SPEEDUP
    if count is not None and count < small and nodes == 1 and gpus <= cards:
        yield (
            f"the articles take DataParallel here (under {small // 10**6} M parameters, one machine, at most {cards} cards). No longer: "
            f"torch's own documentation recommends DDP on one machine too, published DataParallel runs gained from "
            f"{slow.value}× ({slow.source}) to {quick.value}× ({quick.source}), and the conversion is one command. "
            "For a script that runs once more, staying costs only time."
        )
    else:
        yield (
            f"the articles' {small // 10**6} M parameters, one machine and {cards} cards as the bound of DataParallel: not this case"
            if count is not None or nodes > 1 or gpus > cards
            else f"the articles take DataParallel under {small // 10**6} M parameters: cannot be judged without --params"
        )
    if count is None:
        yield f"the articles take DDP above {large // 10**9} B parameters or on several machines" + (
            ": the machines decide, DDP" if nodes > 1 else ": cannot be judged without --params"
        )
    elif count > large:
        yield (
            f"the articles take DDP above {large // 10**9} B parameters. A number of parameters alone does not decide any more: with Adam "
            f"{count / 1e9:.1f} B need {count * 16 / 1e9:.0f} GB on every card under DDP (20 with buckets: {count * 20 / 1e9:.0f} GB); "
            "FSDP (torch 1.11 and later) shards them"
        )
    else:
        yield f"the articles take DDP above {large // 10**9} B parameters or on several machines: " + (
            "several machines, DDP" if nodes > 1 else "not needed as a reason; bytes and links decide"
        )
    yield "the articles send models with conditional branches to an RPC framework: DDP has find_unused_parameters=True for them"


def gb(size: float) -> str:
    """Decimal gigabytes or megabytes, as cards and links are sold."""
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"


def optimizer_of(reading: Reading) -> Optimizer:
    """The heaviest optimizer that the program builds; Adam where none was recognised."""
    return "momentum" if reading.optimizers and "adam" not in reading.optimizers else "adam"


# -------------------------------------------------------------------- showing
def to_text(advice: Advice, reading: Reading) -> str:
    lines = [f"Advice: {NAMES[advice.form]}"]
    if advice.runner_up:
        lines.append(f"Next best: {NAMES[advice.runner_up]}")
    lines += ["", "Why", *(f"  - {reason}" for reason in advice.reasons)]
    lines += ["", "The articles' thresholds", *(f"  - {one}" for one in advice.thresholds)]
    if advice.bytes is not None and advice.setting is not None:
        lines += ["", *_byte_lines(advice.setting, advice.bytes)]
    if advice.bounds:
        lines += ["", "Estimates, not measurements"]
        for bound in advice.bounds:
            lines.append(f"  {bound.name}: {_short(bound.low)} to {_short(bound.high)} {bound.unit}")
            lines += [f"    assuming {one}" for one in bound.assumptions]
    lines += ["", "Not known", *(f"  - {one}" for one in advice.unknown)]
    lines += ["", "A speedup is a measurement: mgmigrate bench train.py --to ddp, on the machine that has the GPUs."]
    return "\n".join(lines) + "\n"


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
    from migrator import estimates

    found: list[Constant] = []
    for value in vars(estimates).values():
        items = value if isinstance(value, tuple) else value.values() if isinstance(value, dict) else (value,)
        flat = [part for item in items for part in (item if isinstance(item, tuple) else (item,))]
        found += [item for item in flat if isinstance(item, Constant)]
    known = [Constant(c, "parameters", n, KNOWN_SOURCE) for n, c in KNOWN_MODELS.items()]
    return found + known + [Constant(c, "parameters", n, PRETRAINED_SOURCE) for n, c in PRETRAINED_MODELS.items()]
