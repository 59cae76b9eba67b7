"""The pairs of programs that the tests check, as text, and edits of them that must be there to be made."""

from __future__ import annotations

from pathlib import Path

FOLDER = Path(__file__).parent / "pairs"
SPLIT_TEMPLATE = Path(__file__).parents[2] / "codemods" / "templates" / "split_data_parallel.py"


def pair(name: str) -> tuple[str, str]:
    return (FOLDER / f"{name}_before.py").read_text(), (FOLDER / f"{name}_after.py").read_text()


def edited(text: str, *changes: tuple[str, str]) -> str:
    """The text with each change made; a change that finds nothing is a mistake in the test."""
    for old, new in changes:
        assert old in text, f"not in the program: {old!r}"
        text = text.replace(old, new)
    return text
