"""Commands about machines and time: doctor, advise, bench, launch.

Imported with the command line, so nothing here imports more than typer; the work is imported inside the commands.
"""

from __future__ import annotations

from typing import Annotated, Literal

import typer
from typer.core import TyperCommand

Format = Literal["text", "json"]


def register(app: typer.Typer, with_script_arguments: type[TyperCommand]) -> None:
    """Add the commands to the tool's own."""
    app.command()(doctor)


def doctor(
    output_format: Annotated[Format, typer.Option("--format", help="Form of the report.")] = "text",
) -> None:
    """Check this machine for one process per GPU: GPUs, driver, NCCL, links, limits.  Exit code 4 where it would fail."""
    from migrator.console import put
    from migrator.doctor import examine, read_machine, to_json, to_text

    machine = read_machine()
    lines = examine(machine)
    put(to_json(machine, lines) if output_format == "json" else to_text(lines))
    raise typer.Exit(4 if any(line.level == "fail" for line in lines) else 0)
