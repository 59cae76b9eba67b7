"""What leaves fixes out of a conversion: a selection in a file, or the user's answers on the terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from migrator.cli.console import fail, terminal

if TYPE_CHECKING:
    from migrator.convert.conversion import Choice, Conversion


def choice_of(
    apply: Path | None, interactive: bool, save: Path | None, programs: int, dash: bool = False
) -> Choice | None:
    """What leaves fixes out, where the user gives a selection or wants to be asked."""
    if save is not None and not interactive:
        fail("--save-selection keeps the answers of --interactive", 2)
    if apply is None and not interactive:
        return None
    if apply is not None and interactive:
        fail("--apply has the answers already: leave out --interactive", 2)
    if programs != 1:
        fail(f"{'--apply' if apply else '--interactive'} is for one program, and {programs} are given", 2)
    from migrator.convert.selection import SelectionError, chosen_ids, load_selection, selected

    if interactive:
        if dash or not sys.stdin.isatty():
            fail("--interactive asks on a terminal, and standard input is none: use --apply", 2)
        return selected(lambda conversion: _asked(conversion, save))
    assert apply is not None
    try:
        selection = load_selection(apply)
    except SelectionError as error:
        fail(str(error), 2)
    return selected(lambda conversion: chosen_ids(conversion, selection))


def _asked(conversion: Conversion, save: Path | None) -> set[str]:
    """What the user refuses, asked on the terminal, and kept in a file where one is named."""
    from migrator.cli.interactive import ask_for_selection
    from migrator.convert.selection import chosen_ids, save_selection

    try:
        selection = ask_for_selection(conversion, terminal())
    except KeyboardInterrupt:
        fail("stopped; nothing was changed", 130)
    if save is not None:
        save_selection(save, selection)
    return chosen_ids(conversion, selection)
