"""Before a command reads files: finish or undo what an interrupted --write left behind."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.cli.console import fail, tell

if TYPE_CHECKING:
    from migrator.trees.scan import Tree


def settle(journals: Iterable[Path]) -> bool:
    """Finish or undo what an interrupted --write left behind; True when there was something."""
    from migrator.write.journal import WriteError, recover

    settled = False
    for journal in dict.fromkeys(journals):
        try:
            told = recover(journal)
        except WriteError as error:
            fail(f"{error}; {error.outcome}")
        if told is not None:
            tell(f"mgmigrate: {told}\n")
            settled = True
    return settled


def settle_above(*paths: Path) -> None:
    """The same for the trees that the paths lie in."""
    from migrator.write.journal import journals_above

    settle(journal for path in paths for journal in journals_above(path))


def walk_settled(folder: Path) -> Tree:
    """The files below a folder, as they are when interrupted writes are settled."""
    from migrator.trees.scan import walk

    tree = walk(folder)
    if settle(tree.journals):
        tree = walk(folder)
    if not tree.files and not tree.problems:
        fail(f"{folder}: holds no Python files")
    return tree
