"""What the user may choose about a conversion: flags of `convert` and `verify`, and `[tool.mgmigrate]` in pyproject.toml.

In: flags (None where they were not given) and the nearest pyproject.toml.  Out: `Options`.  Flags win over the file, and a
single choice wins over a preset at the same place.  Raises `PolicyError`, whose message names the place and the remedy.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from codemods.options import Options

_FAITHFUL: dict[str, Any] = {"batch": "global", "amp": "keep", "sync_bn": False, "channels_last": False, "loss": "auto"}
_FAITHFUL |= {"accumulate": False}
PRESETS: dict[str, dict[str, Any]] = {
    "faithful": _FAITHFUL,
    "fast": {"batch": "per-gpu", "amp": "bf16", "channels_last": True},
}


class PolicyError(Exception):
    """A setting that cannot be meant; the message says where it stands and what would do."""


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """A setting: its field of `Options`, its name on the command line and in the file, its type, and its help."""

    field: str
    name: str
    kind: Any
    help: str

    @property
    def choices(self) -> tuple[str, ...]:
        return getattr(self.kind, "__args__", ())

    @property
    def flag(self) -> str:
        return f"--{self.name}/--no-{self.name}" if self.kind is bool else f"--{self.name}"


POLICIES = (
    Policy(
        "preset",
        "preset",
        Literal["faithful", "fast"],
        "faithful (default) keeps the training; fast is --batch per-gpu --amp bf16 --channels-last.",
    ),
    Policy(
        "batch",
        "batch",
        Literal["global", "per-gpu"],
        "Keep the batch over all GPUs (global, default), or give it to each, with the learning rate scaled and warmed up.",
    ),
    Policy(
        "amp",
        "amp",
        Literal["keep", "off", "bf16", "fp16"],
        "Precision of forward pass and loss: the program's own (keep, default), full, or half.",
    ),
    Policy(
        "loss",
        "loss",
        Literal["auto", "local", "global"],
        "Where the loss is computed: on each share, or on whole batches.",
    ),
    Policy(
        "evaluation",
        "eval",
        Literal["auto", "shard", "replicate"],
        "Share evaluation out where its figures add up (auto, default), insist on it, or let every process do all of it.",
    ),
    Policy("sync_bn", "sync-bn", bool, "Batch norm over the whole batch instead of each process's share."),
    Policy("channels_last", "channels-last", bool, "Lay images out as the GPU's convolutions like them."),
    Policy(
        "accumulate",
        "accumulate",
        bool,
        "With --to accelerate: add gradients up in accelerate's way, not the program's.",
    ),
    Policy("find_unused", "find-unused", bool, "Allow parameters that a step does not use."),
    Policy(
        "seed_policy",
        "seed-policy",
        Literal["per-rank", "same"],
        "Augmentation and dropout: each process its own, or alike.",
    ),
    Policy("pg_timeout", "pg-timeout", int, "Seconds that a process waits for the others (default: torch's)."),
    Policy("master_port", "master-port", int, "Port where the processes meet (default: one that is free)."),
    Policy("nproc", "nproc", int, "Processes on each machine (default: one for each GPU)."),
    Policy("nodes", "nodes", int, "Machines (default: 1)."),
    Policy("model_name", "model-name", str, "Name under which the wrapped model is called, where it leads nowhere."),
    Policy(
        "train_loader", "train-loader", str, "MODULE.NAME of what the training loop reads, where it is not in sight."
    ),
)
# Settings of the file that are no policies: their flags stand in the command line itself.
_OTHERS = (
    Policy("target", "to", Literal["ddp", "accelerate"], ""),
    Policy("sampling", "sampling", Literal["auto", "distributed", "batch", "call"], ""),
    Policy("unsafe", "unsafe", bool, ""),
    Policy("scripts", "scripts", bool, ""),
    Policy("keep_prefix", "keep-prefix", bool, ""),
    Policy("select", "select", list, ""),
    Policy("ignore", "ignore", list, ""),
    Policy("entry", "entry", list, ""),
)
_KINDS = {bool: "true or false", int: "a whole number", str: "a name"}
LEAST = {"pg_timeout": 1, "master_port": 1, "nproc": 1, "nodes": 1}


def choose(flags: Mapping[str, Any], near: Path | None) -> Options:
    """The options of a conversion, from flags and the pyproject.toml nearest to a path (None: no file)."""
    from codemods.options import Options

    values: dict[str, Any] = {}
    for layer in (read_settings(near) if near is not None else {}, flags):
        given = {name: value for name, value in layer.items() if value is not None and value != ()}
        preset = given.pop("preset", None)
        values.update({**PRESETS.get(preset or "", {}), **given})
    return Options(**values)


def faithful(options: Options) -> Options:
    """The same without the policies that change the training on purpose."""
    return dataclasses.replace(options, **_FAITHFUL)


def named_entries(folder: Path, options: Options) -> list[Path]:
    """The files below a folder that the settings name as starting programs; empty where they name none."""
    settings = settings_file(folder) if options.entry else None
    if settings is None:
        return []
    here = Path(os.path.abspath(folder))
    named = [settings.parent / name for name in options.entry]
    for path in named:
        if not path.is_file():
            raise PolicyError(f"{settings}: [tool.mgmigrate] entry names {os.path.relpath(path)}, which is no file")
    return [folder / path.relative_to(here) for path in named if path.is_relative_to(here)]


# -------------------------------------------------------------------- pyproject.toml
def settings_file(near: Path) -> Path | None:
    """The nearest pyproject.toml with a `[tool.mgmigrate]` table, from a file or folder upwards."""
    start = Path(os.path.abspath(near))
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        try:
            if path.is_file() and b"mgmigrate" in path.read_bytes():
                return path
        except OSError as error:
            raise PolicyError(f"{path}: cannot be read: {error.strerror or error}") from error
    return None


def read_settings(near: Path) -> dict[str, Any]:
    """Settings by field of `Options`; empty where there is no table."""
    path = settings_file(near)
    if path is None:
        return {}
    table = _parsed(path).get("tool", {}).get("mgmigrate", {})
    known = {policy.name: policy for policy in (*POLICIES, *_OTHERS)}
    found: dict[str, Any] = {}
    for name, value in table.items():
        policy = known.get(name.replace("_", "-"))
        if policy is None:
            raise PolicyError(f"{path}: [tool.mgmigrate] has no setting {name}; there are {', '.join(known)}")
        found[policy.field] = _checked(path, policy, value)
    return found


def _parsed(path: Path) -> dict[str, Any]:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        try:
            import tomli as tomllib
        except ImportError as error:
            raise PolicyError(f"{path}: Python 3.10 needs `pip install tomli` to read [tool.mgmigrate]") from error
    try:
        parsed: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise PolicyError(f"{path}: cannot be read: {error}") from error
    return parsed


def _checked(path: Path, policy: Policy, value: Any) -> Any:
    """The value as `Options` wants it."""
    place = f"{path}: [tool.mgmigrate] {policy.name}"
    if policy.choices:
        if value not in policy.choices:
            raise PolicyError(f"{place} is {value!r}; it may be {', '.join(policy.choices)}")
    elif policy.kind is list:
        rows = [value] if isinstance(value, str) else value
        if not isinstance(rows, list) or not all(isinstance(row, str) for row in rows):
            kind = "files" if policy.field == "entry" else "rule ids"
            raise PolicyError(f"{place} is {value!r}; it takes a list of {kind}")
        return tuple(rows) if policy.field == "entry" else tuple(row.upper() for row in rows)
    elif not isinstance(value, policy.kind) or (policy.kind is int and isinstance(value, bool)):
        raise PolicyError(f"{place} is {value!r}; it takes {_KINDS[policy.kind]}")
    elif policy.kind is int and value < LEAST[policy.field]:
        raise PolicyError(f"{place} is {value}; it takes a number from {LEAST[policy.field]}")
    return value
