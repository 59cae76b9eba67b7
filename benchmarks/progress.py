"""What a person sees while a benchmark runs: bars on a terminal, a line for each start elsewhere.

rich is imported only where there is a terminal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Lines:
    """One line for each start."""

    def __init__(self, tell: Callable[[str], None]):
        self.tell = tell

    def begins(self, what: str, number: int, total: int, steps: int) -> None:
        self.tell(f"[{number}/{total}] {what}\n" if total else f"[largest batch] {what}\n")

    def steps(self, done: int) -> None:
        pass


class Bars:
    """Two bars on stderr: the runs, and the optimizer steps of the run that goes on."""

    def __init__(self, console: Any = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}"),
        )
        self.bars = Progress(
            *columns, TimeElapsedColumn(), console=console or Console(stderr=True), transient=True, refresh_per_second=4
        )
        self.all = self.bars.add_task("all runs", total=None, unit="runs")
        self.one: Any = None

    def __enter__(self) -> Bars:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def begins(self, what: str, number: int, total: int, steps: int) -> None:
        if self.one is not None:
            self.bars.remove_task(self.one)
        if total:
            self.bars.update(self.all, completed=number - 1, total=total)
        else:
            self.bars.update(self.all, description="looking for the largest batch", total=None)
        self.one = self.bars.add_task(f"{what}: starting", total=None, unit="steps")
        self.what, self.wanted = what, steps

    def steps(self, done: int) -> None:
        if done and self.one is not None:
            self.bars.update(self.one, description=self.what, completed=min(done, self.wanted), total=self.wanted)
