"""What a benchmark found, as data: one `Report` per benchmark, one JSON document per report.

In: runs.  Out: JSON, and back.  Units are in the names; None is "not known", never zero.  Schema: `json_schema()`; a field may be
added under the same version, a changed meaning is a new version.  Imports nothing but the standard library.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

SCHEMA_VERSION = 1
KIND = "mgmigrate-bench"

Status = Literal["measured", "typed", "passes-through", "failed", "not-available"]


@dataclass(frozen=True, slots=True)
class Window:
    """Consecutive optimizer steps between two synchronisations; `seconds` is the slowest rank's."""

    steps: int
    samples: float | None  # over all ranks; None: the program has no loader that could be counted
    seconds: float


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """Peak bytes on one device (or of one process, on a CPU) within the windows."""

    device: str
    allocated: int | None  # tensors
    reserved: int | None  # tensors and the allocator's cache
    used: int | None  # NVML: with CUDA context and NCCL buffers; on a CPU, resident bytes
    total: int | None


@dataclass(frozen=True, slots=True)
class Run:
    """One start of one variant."""

    round: int
    windows: tuple[Window, ...]
    step_ms: tuple[float, ...]  # of the slowest rank in each step; steps that crossed the end of an epoch are left out
    left_out: int  # steps that crossed the end of an epoch
    first_step_s: float | None  # from the start of the process
    loader_wait: float | None  # share of the windows, of the rank that waited most
    hook_share: float | None  # share of the windows spent inside the harness
    cpu_share: float | None  # CPU time of the training process ÷ time, of the rank that got least
    load_before: float | None  # load average before the start
    memory: tuple[DeviceMemory, ...] = ()
    utilisation_pct: tuple[float, ...] = ()  # NVML, per device: share of time with any kernel running
    clocks_mhz: tuple[float, ...] = ()  # NVML, mean SM clock per device
    throttled: tuple[str, ...] = ()  # NVML: reasons why clocks were lowered


@dataclass(frozen=True, slots=True)
class Work:
    """What one step does, as observed in the process: to be equal on all sides."""

    global_batch: float | None
    per_device_batch: float | None
    loader_workers: int | None  # of all processes together
    precision: str | None
    tf32: bool | None
    channels_last: bool | None
    optimizer: str | None
    samples_counted: int | None


@dataclass(frozen=True, slots=True)
class Communication:
    """From a profile of other steps than the timed ones; per step, of the device with the largest share."""

    total_ms: float
    exposed_ms: float
    overlapped_ms: float
    share_pct: float  # of the step
    exposed_pct: float  # of the step
    overlap_pct: float  # of communication
    gradient_sync_ms: float | None
    compute_ms: float
    idle_ms: float
    step_ms: float  # profiled steps are slower than timed ones
    steps: int
    device: str
    method: str
    traces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One start with another batch; `error` is the program's own."""

    per_device_batch: int
    outcome: Literal["fits", "out-of-memory", "failed"]
    samples_per_s: float | None = None  # in all
    memory_peak: int | None = None  # bytes, of the fullest device (of the largest process, on a CPU)
    error: str | None = None


@dataclass(frozen=True, slots=True)
class LargestBatch:
    """What --max-batch found; batches are made of the program's own samples, repeated."""

    per_device_batch: int | None  # the largest that fits; None: not found, and `told` says why
    samples_per_s: float | None  # in all, with that batch
    too_large: int | None  # the smallest that was seen to fail
    bytes_per_sample: float | None  # growth of the fullest device's memory
    attempts: tuple[Attempt, ...]
    told: str = ""  # what this does not say


@dataclass(frozen=True, slots=True)
class Variant:
    """One form of the program and its runs."""

    name: str
    title: str
    status: Status
    devices: int
    processes: int
    launch: str = ""
    error: str | None = None
    work: Work | None = None
    runs: tuple[Run, ...] = ()
    communication: Communication | None = None
    policies: tuple[str, ...] = ()  # flags of convert that change the training or its speed on purpose
    largest: LargestBatch | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A figure that somebody stated beside the runs, to be held against them."""

    variant: str
    quantity: Literal["scaling_efficiency_pct", "speedup"]
    value: float
    stated_by: str


@dataclass(frozen=True, slots=True)
class Environment:
    """The machine and the versions; empty fields were not known."""

    gpus: tuple[str, ...] = ()
    topology: str | None = None
    p2p: bool | None = None
    driver: str | None = None
    cuda: str | None = None
    cudnn: str | None = None
    nccl: str | None = None
    torch: str | None = None
    accelerate: str | None = None
    python: str | None = None
    cpu: str | None = None
    cpus: int | None = None
    load: float | None = None
    commit: str | None = None
    omp_threads: str | None = None


@dataclass(frozen=True, slots=True)
class Warning:
    """Something that a reader must know before believing a figure."""

    code: str
    variant: str | None
    message: str


@dataclass(frozen=True, slots=True)
class Report:
    """One benchmark."""

    program: str
    command: str
    created: str
    device: Literal["cuda", "cpu"]
    source: Literal["measured", "typed"]
    environment: Environment
    variants: tuple[Variant, ...]
    model: str | None = None  # a model that anchors are known of
    warmup_steps: int = 0
    steps_per_window: int = 0
    windows_per_run: int = 0
    rounds: int = 0
    claims: tuple[Claim, ...] = ()
    notes: tuple[str, ...] = field(default=())
    interrupted: bool = False  # not all that was asked for was measured

    def variant(self, name: str) -> Variant | None:
        return next((v for v in self.variants if v.name == name), None)


class ResultError(Exception):
    """A document that is no report of this tool, or of a newer one."""


def dump(report: Report) -> dict[str, Any]:
    return {"schema_version": SCHEMA_VERSION, "kind": KIND, **dataclasses.asdict(report)}


def load(document: object, name: str = "document") -> Report:
    """Raises `ResultError`."""
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise ResultError(f"{name}: is no report of mgmigrate bench")
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise ResultError(f"{name}: has schema version {version}, this tool reads {SCHEMA_VERSION}: update mgmigrate")
    try:
        return _build(Report, document)
    except (KeyError, TypeError, ValueError) as error:
        raise ResultError(f"{name}: is damaged ({type(error).__name__}: {error})") from error


def read(path: Path) -> Report:
    """Raises `ResultError`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ResultError(f"{path}: cannot be read: {error}") from error
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ResultError(f"{path}: is no JSON: {error}") from error
    return load(document, str(path))


T = TypeVar("T")


def _build(kind: type[T], data: dict[str, Any]) -> T:
    hints = get_type_hints(kind)
    values = {}
    for one in dataclasses.fields(kind):  # type: ignore[arg-type]
        if one.name in data:
            values[one.name] = _value(hints[one.name], data[one.name])
    return kind(**values)


def _value(hint: Any, data: Any) -> Any:
    if data is None:
        return None
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast(type, hint), data)
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        return tuple(_value(args[0], item) for item in data)
    if origin in (types.UnionType, typing.Union):
        return _value(next(a for a in args if a is not type(None)), data)
    return data


# -------------------------------------------------------------------- schema
def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a report, made from the classes above."""
    definitions: dict[str, Any] = {}
    _define(Report, definitions)
    report = definitions.pop("Report")
    extra = {"schema_version": {"const": SCHEMA_VERSION}, "kind": {"const": KIND}}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Report of mgmigrate bench",
        **report,
        "properties": {**extra, **report["properties"]},
        "required": [*extra, *report["required"]],
        "$defs": definitions,
    }


def _define(kind: type, definitions: dict[str, Any]) -> None:
    hints = get_type_hints(kind)
    fields = dataclasses.fields(kind)
    definitions[kind.__name__] = {
        "type": "object",
        "description": (kind.__doc__ or "").strip(),
        "properties": {one.name: _schema(hints[one.name], definitions) for one in fields},
        "required": [
            one.name
            for one in fields
            if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
        ],
    }


_PLAIN: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _schema(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    if dataclasses.is_dataclass(hint):
        kind = typing.cast(type, hint)
        if kind.__name__ not in definitions:
            _define(kind, definitions)
        return {"$ref": f"#/$defs/{kind.__name__}"}
    origin, args = get_origin(hint), get_args(hint)
    if origin is tuple:
        return {"type": "array", "items": _schema(args[0], definitions)}
    if origin is Literal:
        return {"enum": list(args)}
    if origin in (types.UnionType, typing.Union):
        return {"anyOf": [_schema(a, definitions) if a is not type(None) else {"type": "null"} for a in args]}
    return {"type": _PLAIN[hint]}
