"""The command bench: measure a program before and after, show and compare reports.

Imported with the command line, so nothing here imports more than typer; the work is imported inside the commands.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

from migrator.cli.console import fail

if TYPE_CHECKING:
    from benchmarks import forms
    from benchmarks.engine import Progress

ReportFormat = Literal["text", "json", "markdown", "html"]
FAKE_SAMPLES = 4096  # behind --fake-data without a number


def register(app: typer.Typer, with_script_arguments: type[TyperCommand]) -> None:
    """Add the command to the tool's own."""
    app.command(cls=_bench_command(with_script_arguments))(bench)


def _bench_command(base: type[TyperCommand]) -> type[TyperCommand]:
    class BenchCommand(base):  # type: ignore[valid-type, misc]
        """`--fake-data` stands alone, or with a number."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            for at, word in enumerate(args[: args.index("--") if "--" in args else None]):
                number = args[at + 1] if at + 1 < len(args) else ""
                if word == "--fake-data" and not number.isdigit():
                    args = [*args[: at + 1], str(FAKE_SAMPLES), *args[at + 1 :]]
                    break
            rest: list[str] = super().parse_args(ctx, args)
            return rest

    return BenchCommand


def settle(program: Path | None) -> None:
    """Finish or undo what an interrupted --write left around the program."""
    from migrator.cli.settling import settle_above

    settle_above(*([] if program is None else [program]))


def own_benchmarks() -> None:
    """Import our `benchmarks` and no other: the user's project may own a folder of that name in the current directory."""
    import migrator

    home = str(Path(migrator.__file__ or "").resolve().parent.parent)
    sys.path.insert(0, home)
    try:
        import benchmarks
    finally:
        sys.path.remove(home)
    if Path(benchmarks.__file__ or "").resolve().parent.parent != Path(home):
        fail(f"another package called benchmarks was imported first: {benchmarks.__file__}")


def bench(
    ctx: typer.Context,
    paths: Annotated[
        list[Path] | None,
        typer.Argument(
            help="The program's entry file, or its folder with -m; or: compare A.json B.json; or: show A.json.",
            metavar="PROGRAM",
        ),
    ] = None,
    to: Annotated[
        list[str] | None, typer.Option("--to", help="Forms to measure: ddp, accelerate; may be given twice.")
    ] = None,
    preset: Annotated[
        list[str] | None, typer.Option(help="Measure each form with this preset of convert as well: fast.")
    ] = None,
    amp: Annotated[
        list[str] | None, typer.Option(help="Measure each form in this precision as well: bf16, fp16 or off.")
    ] = None,
    channels_last: Annotated[
        bool, typer.Option("--channels-last", help="Measure each form with images laid out channels last as well.")
    ] = False,
    max_batch: Annotated[
        bool, typer.Option("--max-batch", help="Find the largest batch per device of each form, and its throughput.")
    ] = False,
    reference: Annotated[
        str, typer.Option(help="A reference trainer instead: resnet50, bert-base, bert-large, small, bert-tiny.")
    ] = "",
    after: Annotated[
        Path | None,
        typer.Option(help="A converted program beside the original, or a folder of changed files; else converted now."),
    ] = None,
    module: Annotated[
        str | None, typer.Option("--module", "-m", help="Run as python -m MODULE from the folder PROGRAM.")
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
    fake_data: Annotated[
        int | None,
        typer.Option(
            min=1, help="Replace torchvision's data sets by this many random samples (4096 without a number)."
        ),
    ] = None,
    prelude: Annotated[
        Path | None, typer.Option(help="Python file to run before the program, in each process.")
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for one run.")] = 600.0,
    keep: Annotated[Path | None, typer.Option(help="Keep logs and traces in this folder.")] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Write the JSON document to this file.")] = None,
    output_format: Annotated[ReportFormat, typer.Option("--format", help="Form of the report.")] = "text",
    html: Annotated[Path | None, typer.Option(help="Write a page with plots to this file.")] = None,
    schema: Annotated[bool, typer.Option("--schema", help="Show the JSON schema of a report, and end.")] = False,
) -> None:
    """Measure a program before and after its conversion.  EXECUTES it, in copies of its folder.

    Script arguments come behind --: mgmigrate bench train.py --to ddp -- --epochs 1
    """
    own_benchmarks()
    if schema:
        import json

        from benchmarks.results import json_schema
        from migrator.cli.console import put

        put(json.dumps(json_schema(), indent=2) + "\n")
        return
    words = list(paths or [])
    if words and str(words[0]) in ("compare", "show") and not words[0].is_file():
        from migrator.cli.bench_reports import compare, show_kept

        (compare if str(words[0]) == "compare" else show_kept)(words[1:], output_format, html)
        return
    if bool(reference) == bool(words or module) or len(words) > 1:
        fail("give one program, or --reference, or compare A.json B.json, or show A.json", 2)
    from benchmarks.forms import Request
    from benchmarks.launch import Measuring
    from migrator.cli.bench_request import find_forms, find_gpus, find_program, read_prelude

    chosen = find_gpus(gpus)
    cuda = bool(chosen)
    measuring = Measuring(
        warmup=warmup or (10 if cuda else 3),
        steps=steps or (30 if cuda else 8),
        windows=windows,
        profile_steps=profile,
        workers=None if workers < 0 else workers,
        timeout=timeout,
        fake_data=fake_data or 0,
        prelude=read_prelude(prelude),
    )
    arguments = list(ctx.meta.get("script", ()))
    model = folder = None
    if reference:
        from benchmarks.references import REFERENCES, arguments_of, program_of

        if reference not in REFERENCES:
            fail(f"--reference {reference}: there are {', '.join(REFERENCES)}", 2)
        program, model = program_of(reference), REFERENCES[reference].model
        measured = find_forms(to, preset, amp, channels_last, program)
        # A batch of each device instead of all: so many times the samples for as many steps.
        larger = (len(chosen) or processes) if any(form.options.batch == "per-gpu" for form in measured) else 1
        own = arguments_of(reference, measuring.total * larger, cuda, batch or None, measuring.workers)
        arguments = [*own, *arguments]
    else:
        program, module, folder = find_program(words[0] if words else Path("."), module)
    if after is not None and not after.exists():
        fail(f"{after}: no such file or folder")
    settle(program)
    _bench(
        Request(
            program=program,
            command=" ".join(["mgmigrate", *sys.argv[1:]]),
            arguments=tuple(arguments),
            forms=find_forms(to, preset, amp, channels_last, program),
            after=after,
            module=module,
            folder=folder,
            gpus=chosen,
            processes=processes,
            rounds=rounds,
            measuring=measuring,
            profile_steps=profile,
            max_batch=max_batch,
            model=model,
            keep=keep,
            root=program.parent if reference else None,
        ),
        output,
        html,
        output_format,
    )


def _bench(request: forms.Request, output: Path | None, html: Path | None, output_format: ReportFormat) -> None:
    import json
    import signal

    from benchmarks.engine import benchmark
    from benchmarks.results import dump
    from migrator.cli.bench_reports import show, write
    from migrator.cli.console import tell
    from migrator.load.source import SourceError

    tell(f"{request.program}: will be executed, in copies of its folder\n")
    for name in ("SIGTERM", "SIGHUP"):  # end what was started, and show what was measured
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # nohup's stays
            signal.signal(number, signal.default_int_handler)
    try:
        with _progress() as progress:
            report = benchmark(request, progress)
    except (OSError, SourceError) as error:
        fail(str(error))
    if output is not None:
        write(output, json.dumps(dump(report), indent=1, ensure_ascii=False) + "\n")
    show(report, output_format, html)
    if report.interrupted:
        raise typer.Exit(130)
    failed = [v for v in report.variants if v.status in ("failed", "not-available")]
    raise typer.Exit(4 if failed else 0)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Two bars on a terminal, runs and steps of the run; else one line for each start."""
    from benchmarks.progress import Bars, Lines
    from migrator.cli.console import tell

    if not sys.stderr.isatty():
        yield Lines(tell)
        return
    with Bars() as bars:
        yield bars
