"""Commands about machines and time: doctor, advise, bench, launch.

Imported with the command line, so nothing here imports more than typer; the work is imported inside the commands.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, NoReturn

import typer
from typer.core import TyperCommand

Format = Literal["text", "json"]


def register(app: typer.Typer, with_script_arguments: type[TyperCommand]) -> None:
    """Add the commands to the tool's own."""
    app.command()(doctor)
    app.command()(advise)


def _fail(message: str, code: int = 4) -> NoReturn:
    from migrator.console import tell

    tell(f"mgmigrate: {message}\n")
    raise typer.Exit(code)


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


def advise(
    program: Annotated[
        Path | None, typer.Argument(help="The program's entry file; it is read, never executed.")
    ] = None,
    params: Annotated[str, typer.Option(help="Number of parameters, such as 350M or 1.3B.")] = "",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of one machine; 0: those of this machine, or 4.")] = 0,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.")] = 1,
    memory: Annotated[float, typer.Option(min=0, help="Memory of one GPU in GB; 0: this machine's.")] = 0.0,
    batch: Annotated[int, typer.Option(min=0, help="Global batch.")] = 0,
    output_bytes: Annotated[int, typer.Option(min=0, help="Bytes of the model's outputs for one sample.")] = 0,
    optimizer: Annotated[
        Literal["auto", "adam", "momentum", "sgd"], typer.Option(help="What it keeps per parameter.")
    ] = "auto",
    link: Annotated[Literal["auto", "pcie", "nvlink"], typer.Option(help="Between the GPUs of a machine.")] = "auto",
    portable: Annotated[bool, typer.Option("--portable", help="One code must run on CPUs, one GPU and many.")] = False,
    output_format: Annotated[Format, typer.Option("--format", help="Form of the advice.")] = "text",
) -> None:
    """Say which form fits: stay, DDP, accelerate, FSDP or model parallel, and why.  Estimates; executes nothing."""
    from migrator import advise as advising
    from migrator.advise_program import read_program, this_machine
    from migrator.console import put
    from migrator.estimates import Setting
    from migrator.source import SourceError

    if program is None and not params:
        _fail("give a program, or --params", 2)
    try:
        reading = advising.Reading() if program is None else read_program(program)
        count = advising.parse_count(params) if params else max((n for _, n, _ in reading.models), default=0)
    except SourceError as error:
        _fail(str(error))
    except ValueError as error:
        _fail(str(error), 2)
    here = this_machine()
    gpus = gpus or here.gpus or 4
    chosen_link = here.link if link == "auto" else link
    setting = None
    if count:
        setting = Setting(
            parameters=count,
            gpus=gpus,
            nodes=nodes,
            memory=int(memory * 1e9) or here.memory,
            optimizer=advising.optimizer_of(reading) if optimizer == "auto" else optimizer,
            batch=batch or None,
            output_bytes=output_bytes or None,
        )
    advice = advising.advise(reading, setting, gpus, nodes, portable, chosen_link)
    put(advising.to_json(advice, reading) if output_format == "json" else advising.to_text(advice, reading))
