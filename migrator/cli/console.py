"""What goes to the terminal: bytes to stdout, colours where a person looks, and errors in one line.

Nothing here imports rich: a progress bar is the only thing that does, when there is a terminal to show it on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn, TextIO

if TYPE_CHECKING:
    from migrator.cli.interactive import Terminal


def has_colours(stream: TextIO) -> bool:
    """True for a terminal, unless the user's environment asks for none (https://no-color.org)."""
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def put(data: bytes | str) -> None:
    """Write to stdout as it is: a diff is in the encodings of its files."""
    raw = data if isinstance(data, bytes) else data.encode("utf-8", "replace")
    try:
        sys.stdout.flush()
        sys.stdout.buffer.write(raw)
        sys.stdout.buffer.flush()
    except BrokenPipeError:  # the reader has seen enough; the rest of the work goes on
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell(text: str) -> None:
    """Write to stderr, whatever it can encode."""
    encoding = sys.stderr.encoding or "utf-8"
    sys.stderr.write(text.encode(encoding, "replace").decode(encoding))


def fail(message: str, code: int = 4) -> NoReturn:
    """End the command with one line on stderr."""
    from typer import Exit

    tell(f"mgmigrate: {message}\n")
    raise Exit(code)


def terminal() -> Terminal:
    """The user's terminal, to ask on: questions on stderr, so that stdout stays the diff's."""
    from migrator.cli.interactive import Terminal
    from migrator.formats.diff import painted

    coloured = has_colours(sys.stderr)

    def ask(prompt: str) -> str | None:
        tell(prompt)
        sys.stderr.flush()
        line = sys.stdin.readline()
        return line.strip() if line else None

    return Terminal(ask, tell, painted if coloured else lambda _, line: line)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns of text, two spaces apart."""
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]]
    return "\n".join(line.rstrip() for line in lines) + "\n"


@contextmanager
def step_progress(sides: Sequence[tuple[str, str]]) -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar per side of a check; gives a function that takes side, steps done and steps wanted (0: not known yet).

    Gives None where stderr is no terminal.
    """
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.completed} steps"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks = {side: bars.add_task(text, total=None) for side, text in sides}

        def report(side: str, done: int, wanted: int) -> None:
            if side in tasks:
                bars.update(tasks[side], completed=done, total=wanted or None)

        yield report
