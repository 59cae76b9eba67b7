"""Commands about machines: doctor, advise, launch.  Nothing is executed.

Imported with the command line, so nothing here imports more than typer; the work is imported inside the commands.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from typer.core import TyperCommand

from migrator.cli.bench import own_benchmarks, settle
from migrator.cli.console import fail

if TYPE_CHECKING:
    from migrator.machines.estimates import Bound

Format = Literal["text", "json"]


def register(app: typer.Typer, with_script_arguments: type[TyperCommand]) -> None:
    """Add the commands to the tool's own."""
    app.command()(doctor)
    app.command()(advise)
    app.command(cls=with_script_arguments)(launch)


def doctor(
    output_format: Annotated[Format, typer.Option("--format", help="Form of the report.")] = "text",
) -> None:
    """Check this machine for one process per GPU: GPUs, driver, NCCL, links, limits.  Exit code 4 where it would fail."""
    from migrator.cli.console import put
    from migrator.machines.doctor import examine, to_json, to_text
    from migrator.machines.machine import read_machine

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
    calibrate: Annotated[
        Path | None, typer.Option(help="A report of mgmigrate bench on this machine: bounds from its measured steps.")
    ] = None,
    portable: Annotated[bool, typer.Option("--portable", help="One code must run on CPUs, one GPU and many.")] = False,
    output_format: Annotated[Format, typer.Option("--format", help="Form of the advice.")] = "text",
) -> None:
    """Say which form fits: stay, DDP, accelerate, FSDP or model parallel, and why.  Estimates; executes nothing."""
    from migrator.cli.console import put
    from migrator.load.source import SourceError
    from migrator.machines import advise as advising
    from migrator.machines.advise_program import read_program, this_machine
    from migrator.machines.advise_reading import Reading
    from migrator.machines.advise_show import to_json, to_text
    from migrator.machines.estimates import Setting

    if program is None and not params:
        fail("give a program, or --params", 2)
    settle(program)
    try:
        reading = Reading() if program is None else read_program(program)
        count = advising.parse_count(params) if params else max((n for _, n, _ in reading.models), default=0)
    except SourceError as error:
        fail(str(error))
    except ValueError as error:
        fail(str(error), 2)
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
    if calibrate is not None:
        advice = dataclasses.replace(advice, bounds=(*_calibrated(calibrate, gpus), *advice.bounds))
    put(to_json(advice, reading) if output_format == "json" else to_text(advice, reading))


def _calibrated(path: Path, gpus: int) -> list[Bound]:
    """Bounds from what a benchmark measured: the step of one device, and the synchronisation of the DDP form."""
    own_benchmarks()
    from benchmarks.figures import summarise
    from benchmarks.results import ResultError, read
    from migrator.machines.estimates import calibrated

    try:
        report = read(path)
    except ResultError as error:
        fail(str(error))
    single, ddp = report.variant("single"), report.variant("ddp")
    figures = summarise(single) if single is not None else None
    if figures is None or figures.mean_ms is None:
        fail(f"{path}: holds no measured step of one device")
    seen = ddp.communication.gradient_sync_ms if ddp is not None and ddp.communication is not None else None
    return calibrated(figures.mean_ms, seen, ddp.devices if ddp is not None else gpus)


def launch(
    ctx: typer.Context,
    program: Annotated[Path, typer.Argument(help="The converted program.")],
    to: Annotated[Literal["ddp", "accelerate"], typer.Option("--to", help="Its form.")] = "ddp",
    launcher: Annotated[
        Literal["shell", "slurm"], typer.Option(help="A command for each machine, or an sbatch file.")
    ] = "shell",
    gpus: Annotated[int, typer.Option(min=0, help="GPUs of one machine; 0: as many as it has.")] = 0,
    nodes: Annotated[int, typer.Option(min=1, help="Machines.")] = 1,
    min_nodes: Annotated[
        int, typer.Option("--min-nodes", min=0, help="Go on with so many when others are lost; 0: all are needed.")
    ] = 0,
    host: Annotated[str, typer.Option(help="Name or address of the first machine.")] = "HOST",
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on the first machine.")] = 29500,
    max_restarts: Annotated[
        int, typer.Option("--max-restarts", min=0, help="Restarts after a process or a machine is lost.")
    ] = 0,
    partition: Annotated[str, typer.Option(help="SLURM partition.")] = "",
    hours: Annotated[int, typer.Option(min=1, help="SLURM time limit.")] = 24,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to this file, if it is not there yet.")
    ] = None,
) -> None:
    """Say how to start a converted program: one machine, several, or SLURM.  Starts nothing.

    Script arguments come behind --: mgmigrate launch train.py --nodes 2 -- --epochs 90
    """
    from migrator.cli.console import put, tell
    from migrator.launch import cluster

    if min_nodes > nodes:
        fail(f"--min-nodes {min_nodes}: there are {nodes}", 2)
    if to == "accelerate" and min_nodes:
        fail("--min-nodes is torchrun's: accelerate starts with a fixed number of machines", 2)
    wanted = cluster.Launch(
        program=str(program),
        arguments=tuple(ctx.meta.get("script", ())),
        form=to,
        gpus=gpus,
        nodes=nodes,
        least_nodes=min_nodes,
        host=host,
        port=port,
        max_restarts=max_restarts,
        hours=hours,
        partition=partition,
    )
    try:
        text = cluster.sbatch(wanted) if launcher == "slurm" else "\n".join(cluster.lines(wanted)) + "\n"
    except ValueError as error:
        fail(str(error), 2)
    if output is None:
        put(text)
    else:
        try:
            with output.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            fail(f"{output}: cannot be written: {error.strerror}")
        if launcher == "slurm":
            tell(f"submit it with: sbatch {output}\n")
    resumes = None
    if program.is_file():
        resumes = "resume" in program.read_text(encoding="utf-8", errors="replace")
    for line in cluster.advice(wanted, resumes):
        if launcher != "slurm" or "restart" in line or "fewer" in line:
            tell(f"note: {line}\n")
