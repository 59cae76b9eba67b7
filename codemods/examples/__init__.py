"""The examples of rules: what each changes or tells, and what it leaves alone.  They are tests, and their diffs are the docs.

`codemods/examples/MG501.py` holds the examples of MG501.  A line `# %% changed`, `# %% told` or `# %% left alone` begins each
of them; ` in epoch` (the default: behind the loop over batches), ` in step` (at its end), ` in setup` (before the loop over epochs)
or ` in file` (above `main`) says where its lines stand in a small training program, and `: --flags` with which flags it is converted.
Imports stand at the top of the program.  Lines that hold a whole program are the program.  `# %% beside NAME` begins a file
that stands beside the program of the next example.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

from codemods.options import Options

FOLDER = Path(__file__).parent
_BESIDE = re.compile(r"# %% beside (\S+)")
_HEAD = re.compile(r"# %% (changed|told|left alone)(?: in (epoch|step|setup|file))?(?:: (.+))?")
PROGRAM = """\
import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{file}

def main():
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2))
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
{setup}    for epoch in range(2):
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
{step}{epoch}

if __name__ == "__main__":
    main()
"""


@dataclass(frozen=True, slots=True)
class Example:
    """`kind` is changed, told or left alone; `text` are its lines, `flags` those of `convert`; `beside` are other files."""

    rule: str
    kind: str
    place: str
    flags: str
    text: str
    beside: tuple[tuple[str, str], ...] = ()

    @property
    def program(self) -> str:
        """The program that the lines stand in."""
        if "if __name__" in self.text:
            return self.text
        imports = "".join(re.findall(r"(?m)^(?:import|from) .+\n", self.text))
        body = re.sub(r"(?m)^(?:import|from) .+\n", "", self.text).strip("\n") + "\n"
        parts = {"file": imports, "setup": "", "step": "", "epoch": ""}
        depth = {"setup": 4, "epoch": 8, "step": 12}.get(self.place, 0)
        parts[self.place] += indent(body, " " * depth) if depth else f"\n\n{body}"
        return PROGRAM.format(**parts)

    @property
    def options(self) -> Options:
        """The flags as options: the names of flags and of fields differ where policies say so."""
        values: dict[str, Any] = {}
        words = shlex.split(self.flags)
        names = {"to": "target", "eval": "evaluation"}
        while words:
            name = words.pop(0).removeprefix("--").replace("-", "_")
            given = words.pop(0) if words and not words[0].startswith("--") else True
            values[names.get(name, name)] = int(given) if isinstance(given, str) and given.isdigit() else given
        return Options(**values)


def examples(rule: str) -> Iterator[Example]:
    """The examples of a rule, in their order; none where it has no file."""
    path = FOLDER / f"{rule}.py"
    if not path.exists():
        return
    parts = re.split(r"(?m)^(?=# %% )", path.read_text(encoding="utf-8"))
    beside: list[tuple[str, str]] = []
    for part in parts[1:]:
        head, _, text = part.partition("\n")
        if other := _BESIDE.fullmatch(head):
            beside.append((other[1], text.strip("\n") + "\n"))
            continue
        found = _HEAD.fullmatch(head)
        if found is None:
            raise ValueError(f"{path}: {head!r} does not begin an example (see codemods/examples/__init__.py)")
        told = text.strip("\n") + "\n"
        yield Example(rule, found[1], found[2] or "epoch", found[3] or "", told, tuple(beside))
        beside = []
