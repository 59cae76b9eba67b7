"""What an advice needs of a program and of this machine.  Reads files and asks nvidia-smi; executes nothing of the program."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from migrator.facts.program import Program
from migrator.load.project import load_project
from migrator.machines.advise_reading import Reading, read_trees
from migrator.machines.machine import read_gpus


@dataclass(frozen=True, slots=True)
class Here:
    """This machine's GPUs: number, bytes of the smallest, and how they are linked.  0 and None where there are none."""

    gpus: int
    memory: int | None
    link: str


def this_machine() -> Here:
    gpus, links = read_gpus()
    if not gpus:
        return Here(0, None, "pcie")
    pairs = [links[i][j] for i in range(len(links)) for j in range(min(i, len(links[i])))]
    linked = bool(pairs) and all(kind.startswith("NV") for kind in pairs)
    return Here(len(gpus), min(g.memory for g in gpus) << 20, "nvlink" if linked else "pcie")


def read_program(entry: Path) -> Reading:
    """The entry and everything that it imports.  Raises `SourceError` where the entry cannot be read."""
    program = Program(load_project(entry))
    reading = read_trees([(module.path, module.tree, module.imports) for module in program.modules])
    wraps = tuple(f"{wrap.at.path}:{wrap.at.line}" for wrap in program.wraps)
    return replace(reading, wraps=wraps, trains=program.trains or not wraps)
