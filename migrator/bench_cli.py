"""Commands about machines and time: doctor, advise, bench, launch.

Imported with the command line, so nothing here imports more than typer; the work is imported inside the commands.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from benchmarks.engine import Progress, Request
    from benchmarks.results import Report
    from migrator.doctor import Gpu
    from migrator.estimates import Bound

Format = Literal["text", "json"]


def register(app: typer.Typer, with_script_arguments: type[TyperCommand]) -> None:
    """Add the commands to the tool's own."""
    app.command()(doctor)
    app.command()(advise)
    app.command(cls=with_script_arguments)(bench)
    app.command(cls=with_script_arguments)(launch)


def _settle(program: Path | None) -> None:
    """Finish or undo what an interrupted --write left around the program."""
    from migrator.cli import settle_above

    settle_above(*([] if program is None else [program]))


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
    calibrate: Annotated[
        Path | None, typer.Option(help="A report of mgmigrate bench on this machine: bounds from its measured steps.")
    ] = None,
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
    _settle(program)
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
    if calibrate is not None:
        advice = dataclasses.replace(advice, bounds=(*_calibrated(calibrate, gpus), *advice.bounds))
    put(advising.to_json(advice, reading) if output_format == "json" else advising.to_text(advice, reading))


def _calibrated(path: Path, gpus: int) -> list[Bound]:
    """Bounds from what a benchmark measured: the step of one device, and the synchronisation of the DDP form."""
    _own_benchmarks()
    from benchmarks.figures import summarise
    from benchmarks.results import ResultError, read
    from migrator.estimates import calibrated

    try:
        report = read(path)
    except ResultError as error:
        _fail(str(error))
    single, ddp = report.variant("single"), report.variant("ddp")
    figures = summarise(single) if single is not None else None
    if figures is None or figures.mean_ms is None:
        _fail(f"{path}: holds no measured step of one device")
    seen = ddp.communication.gradient_sync_ms if ddp is not None and ddp.communication is not None else None
    return calibrated(figures.mean_ms, seen, ddp.devices if ddp is not None else gpus)


# -------------------------------------------------------------------- bench
def _own_benchmarks() -> None:
    """Import our `benchmarks` and no other: the user's project may own a folder of that name in the current directory."""
    home = str(Path(__file__).resolve().parent.parent)
    sys.path.insert(0, home)
    try:
        import benchmarks
    finally:
        sys.path.remove(home)
    if Path(benchmarks.__file__ or "").resolve().parent.parent != Path(home):
        _fail(f"another package called benchmarks was imported first: {benchmarks.__file__}")


def bench(
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="The program's entry file; or: compare A.json B.json.", metavar="PROGRAM"),
    ] = None,
    to: Annotated[
        list[str] | None, typer.Option("--to", help="Forms to measure: ddp, accelerate; may be given twice.")
    ] = None,
    reference: Annotated[
        str, typer.Option(help="A reference trainer instead: resnet50, bert-base, bert-large, small, bert-tiny.")
    ] = "",
    after: Annotated[
        Path | None, typer.Option(help="A converted program beside the original, instead of converting now.")
    ] = None,
    gpus: Annotated[str, typer.Option(help="GPUs to use: 0,1,2,3, all, or none for the CPU.")] = "all",
    processes: Annotated[int, typer.Option(min=1, help="Processes of the converted form on a CPU.")] = 2,
    steps: Annotated[int, typer.Option(min=0, help="Optimizer steps of a window; 0: 30 on GPUs, 8 on a CPU.")] = 0,
    warmup: Annotated[int, typer.Option(min=0, help="Steps before the first window; 0: 10 on GPUs, 3 on a CPU.")] = 0,
    windows: Annotated[int, typer.Option(min=1, help="Windows of a run.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="How often each form is started, in turn.")] = 3,
    profile: Annotated[int, typer.Option(min=0, help="Steps to profile after the windows; 0: none.")] = 3,
    workers: Annotated[
        int, typer.Option(min=-1, help="Loader workers of all processes together; -1: as the program wants.")
    ] = -1,
    batch: Annotated[int, typer.Option(min=0, help="Global batch of a reference trainer; 0: its own.")] = 0,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one run.")] = 600.0,
    keep: Annotated[Path | None, typer.Option(help="Keep logs and traces in this folder.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the JSON document to this file.")] = None,
    output_format: Annotated[
        Literal["text", "json", "markdown"], typer.Option("--format", help="Form of the report.")
    ] = "text",
    html: Annotated[Path | None, typer.Option(help="Write a page with plots to this file.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Show the JSON schema of a report, and end.")] = False,
) -> None:
    """Measure a program before and after its conversion.  EXECUTES it, in copies of its folder.

    Script arguments come behind --: mgmigrate bench train.py --to ddp -- --epochs 1
    """
    _own_benchmarks()
    if schema:
        import json

        from benchmarks.results import json_schema
        from migrator.console import put

        put(json.dumps(json_schema(), indent=2) + "\n")
        return
    words = list(paths or [])
    if words and str(words[0]) == "compare":
        _compare(words[1:], output_format)
        return
    if bool(reference) == bool(words) or len(words) > 1:
        _fail("give one program, or --reference, or compare A.json B.json", 2)
    from benchmarks.engine import Request
    from benchmarks.launch import Measuring

    chosen = _gpus(gpus)
    cuda = bool(chosen)
    measuring = Measuring(
        warmup=warmup or (10 if cuda else 3),
        steps=steps or (30 if cuda else 8),
        windows=windows,
        profile_steps=profile,
        workers=None if workers < 0 else workers,
        timeout=timeout,
    )
    arguments = list(ctx.meta.get("script", ()))
    model = None
    if reference:
        from benchmarks.references import REFERENCES, arguments_of, program_of

        if reference not in REFERENCES:
            _fail(f"--reference {reference}: there are {', '.join(REFERENCES)}", 2)
        program, model = program_of(reference), REFERENCES[reference].model
        own = arguments_of(reference, measuring.total, cuda, batch or None, measuring.workers)
        arguments = [*own, *arguments]
    else:
        program = words[0]
    for path in (program, after):
        if path is not None and not path.is_file():
            _fail(f"{path}: no such file")
    _settle(program)
    targets = tuple(dict.fromkeys(to or ["ddp"]))
    for target in targets:
        if target not in ("ddp", "accelerate"):
            _fail(f"--to {target}: there are ddp and accelerate", 2)
    _bench(
        Request(
            program=program,
            command=" ".join(["mgmigrate", *sys.argv[1:]]),
            arguments=tuple(arguments),
            targets=targets,  # type: ignore[arg-type]
            after=after,
            gpus=chosen,
            processes=processes,
            rounds=rounds,
            measuring=measuring,
            profile_steps=profile,
            model=model,
            keep=keep,
            root=program.parent if reference else None,
        ),
        output,
        html,
        output_format,
    )


def _gpus(asked: str) -> tuple[Gpu, ...]:
    """The GPUs that the user named; empty for the CPU."""
    from migrator.doctor import read_gpus

    if asked in ("none", "cpu"):
        return ()
    found, _ = read_gpus()
    if asked == "all":
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if visible is None:
            return found
        named = [part.strip() for part in visible.split(",")]
        return tuple(
            gpu for name in named for gpu in found if name and (name == str(gpu.index) or gpu.uuid.startswith(name))
        )
    wanted = [part.strip() for part in asked.split(",")]
    by_index = {str(gpu.index): gpu for gpu in found}
    for part in wanted:
        if part not in by_index:
            _fail(f"--gpus {asked}: there is no GPU {part}; nvidia-smi lists {', '.join(by_index) or 'none'}", 2)
    return tuple(by_index[part] for part in wanted)


def _bench(request: Request, output: Path | None, html: Path | None, output_format: str) -> None:
    import json
    import signal

    from benchmarks.engine import benchmark
    from benchmarks.results import dump
    from migrator.console import tell
    from migrator.source import SourceError

    tell(f"{request.program}: will be executed, in copies of its folder\n")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # end what was started, and show what was measured
    try:
        report = benchmark(request, _progress())
    except (OSError, SourceError) as error:
        _fail(str(error))
    from benchmarks.page import to_html

    document = json.dumps(dump(report), indent=1, ensure_ascii=False) + "\n"
    for path, text in ((output, document), (html, to_html(report))):
        if path is not None:
            try:
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                tell(f"mgmigrate: {path}: cannot be written: {error}\n")
    _show(report, output_format)
    failed = [v for v in report.variants if v.status in ("failed", "not-available")]
    raise typer.Exit(4 if failed else 0)


def _show(report: Report, output_format: str) -> None:
    import json

    from benchmarks.results import dump
    from benchmarks.show import to_markdown, to_text
    from migrator.console import put

    if output_format == "json":
        put(json.dumps(dump(report), indent=1, ensure_ascii=False) + "\n")
    else:
        put(to_markdown(report) if output_format == "markdown" else to_text(report))


def _progress() -> Progress:
    from migrator.console import tell

    def show(what: str, number: int, total: int) -> None:
        tell(f"[{number}/{total}] {what}\n")

    return show


def _compare(words: list[Path], output_format: str) -> None:
    from benchmarks.compare import compare_reports, to_json, to_text
    from benchmarks.results import ResultError, read
    from migrator.console import put

    if len(words) != 2:
        _fail("bench compare takes two reports: A.json B.json", 2)
    try:
        difference = compare_reports(read(words[0]), read(words[1]))
    except ResultError as error:
        _fail(str(error))
    put(to_json(difference) if output_format == "json" else to_text(difference, str(words[0]), str(words[1])))


# -------------------------------------------------------------------- launch
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
    from migrator import cluster
    from migrator.console import put, tell

    if min_nodes > nodes:
        _fail(f"--min-nodes {min_nodes}: there are {nodes}", 2)
    if to == "accelerate" and min_nodes:
        _fail("--min-nodes is torchrun's: accelerate starts with a fixed number of machines", 2)
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
        _fail(str(error), 2)
    if output is None:
        put(text)
    else:
        try:
            with output.open("x", encoding="utf-8") as file:
                file.write(text)
        except OSError as error:
            _fail(f"{output}: cannot be written: {error.strerror}")
        if launcher == "slurm":
            tell(f"submit it with: sbatch {output}\n")
    resumes = None
    if program.is_file():
        resumes = "resume" in program.read_text(encoding="utf-8", errors="replace")
    for line in cluster.advice(wanted, resumes):
        if launcher != "slurm" or "restart" in line or "fewer" in line:
            tell(f"note: {line}\n")
