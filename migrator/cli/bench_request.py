"""What bench is asked to measure: the program, its forms, and the GPUs.

In: words of the command line.  Out: what a `Request` is made of; ends the command where they do not fit.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from benchmarks.forms import Form
from migrator.cli.console import fail
from migrator.cli.options import read_options
from migrator.load.project import load_project
from migrator.load.source import SourceError
from migrator.machines.machine import Gpu, read_gpus


def find_program(path: Path, module: str | None) -> tuple[Path, str | None, Path | None]:
    """The entry file, the module it is run as, and the folder that the module is found in."""
    if module is not None:
        stem = path.joinpath(*module.split("."))
        for found in (stem.with_name(stem.name + ".py"), stem / "__main__.py"):
            if found.is_file():
                return found, module, path
        fail(f"{path}: holds no module {module}")
    if path.is_dir():
        fail(f"{path}: is a folder; give the program's file, or --module", 2)
    if not path.is_file():
        fail(f"{path}: no such file")
    if path.suffix == ".ipynb":
        fail(f"{path}: is a notebook, which only its own kernel runs: bench takes programs", 3)
    return _run_as_module(path)


def _run_as_module(path: Path) -> tuple[Path, str | None, Path | None]:
    """A file that imports from beside itself with a dot only runs by `python -m`, from the folder of its package."""

    try:
        project = load_project(path)
    except SourceError as error:
        fail(str(error))
    if not project.package:
        return path, None, None
    return path, project.command.removeprefix("-m "), project.root


def read_prelude(path: Path | None) -> str:
    """The text of the file; empty without one."""
    if path is None:
        return ""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        fail(f"{path}: cannot be read: {error}")


def find_forms(
    targets: list[str] | None, presets: list[str] | None, amp: list[str] | None, channels_last: bool, near: Path
) -> tuple[Form, ...]:
    """Each target as it is, then with each policy that was asked for; the rest as the project's settings say."""

    variants: list[tuple[str, tuple[str, ...], dict[str, Any]]] = [("", (), {})]
    for name, value, known in (
        *(("preset", value, ("faithful", "fast")) for value in presets or ()),
        *(("amp", value, ("bf16", "fp16", "off")) for value in amp or ()),
    ):
        if value not in known:
            fail(f"--{name} {value}: there are {', '.join(known)}", 2)
        label = value if name == "preset" else f"amp-{value}"
        variants.append((label, (f"--{name} {value}",), {name: value}))
    if channels_last:
        variants.append(("channels-last", ("--channels-last",), {"channels_last": True}))
    found = []
    for target in dict.fromkeys(targets or ["ddp"]):
        if target not in ("ddp", "accelerate"):
            fail(f"--to {target}: there are ddp and accelerate", 2)
        for label, words, values in dict((v[0], v) for v in variants).values():
            options = read_options({**values, "target": target}, None, None, near)
            found.append(Form(target, label, words, options))  # type: ignore[arg-type]
    return tuple(found)


def find_gpus(asked: str) -> tuple[Gpu, ...]:
    """The GPUs that the user named; empty for the CPU."""

    if asked in ("none", "cpu"):
        return ()
    found, _ = read_gpus()
    if asked == "all":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            return found
        named = [part.strip() for part in visible.split(",")]
        return tuple(
            gpu for name in named for gpu in found if name and (name == str(gpu.index) or gpu.uuid.startswith(name))
        )
    wanted = [part.strip() for part in asked.split(",")]
    by_index = {str(gpu.index): gpu for gpu in found}
    for part in wanted:
        if part not in by_index:
            fail(f"--gpus {asked}: there is no GPU {part}; nvidia-smi lists {', '.join(by_index) or 'none'}", 2)
    return tuple(by_index[part] for part in wanted)
