"""What a conversion is: the changed files, what was found, and how the result is started."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from codemods.base import Diagnostic
from migrator.edits import Label
from migrator.load.source import Source

# What starts several processes, and what makes a model train over them; each is of no use without the other.
JOINS, WRAPS = frozenset({"MG101", "MG104"}), frozenset({"MG301", "MG302", "MG305"})


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after; `before` is None for a new file.  Line labels say which fixes changed a line."""

    path: str
    before: str | None
    after: str
    source: Source | None
    labels_before: dict[int, frozenset[Label]]
    labels_after: dict[int, frozenset[Label]]


@dataclass(frozen=True, slots=True)
class Conversion:
    """The result of converting one program."""

    entry: str
    outcome: str
    changes: tuple[FileChange, ...]
    diagnostics: tuple[Diagnostic, ...]
    launch: str
    way: str = ""
    reason: str = ""
    policies: tuple[str, ...] = ()  # flags that changed the training on purpose

    @property
    def questions(self) -> list[Diagnostic]:
        return [d for d in self.diagnostics if d.level == "question"]

    @property
    def exit_code(self) -> int:
        return 3 if self.questions else 0


# Given the whole conversion, what is told in the place of each fix that is left out (see migrator.convert.selection).
Choice = Callable[[Conversion], Mapping[Diagnostic, Diagnostic | None]]
