"""The command `verify`: run the original and the converted program, and compare their training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from migrator.cli.console import fail, put, step_progress, tell
from migrator.cli.options import Format, Target, options_of, with_policies
from migrator.cli.script_arguments import WithScriptArguments
from migrator.cli.settling import settle_above

FAKE_SAMPLES = 256  # of --fake-data without a number


class VerifyCommand(WithScriptArguments):
    """`--fake-data` stands alone, or with a number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for at, word in enumerate(args[: args.index("--") if "--" in args else None]):
            number = args[at + 1] if at + 1 < len(args) else ""
            if word == "--fake-data" and not number.lstrip("-").isdigit():
                args = [*args[: at + 1], str(FAKE_SAMPLES), *args[at + 1 :]]
                break
        return super().parse_args(ctx, args)


@with_policies
def verify(
    ctx: typer.Context,
    before: Annotated[Path, typer.Argument(help="The original program, or its folder with --module.")],
    after: Annotated[
        Path | None,
        typer.Argument(help="The converted program, or a folder with a converted copy; converted now when left out."),
    ] = None,
    *,
    policies: dict[str, Any],
    to: Annotated[
        Target | None, typer.Option("--to", help="Form to convert to when AFTER is left out (default: ddp).")
    ] = None,
    devices: Annotated[int, typer.Option(min=1, help="Simulated GPUs, and processes of the converted program.")] = 4,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Optimizer steps to compare; default: into the second epoch.")
    ] = None,
    float64: Annotated[bool, typer.Option("--float64", help="Run freely in float64, without resynchronising.")] = False,
    fake_data: Annotated[
        int | None,
        typer.Option(min=1, help="Replace torchvision's data sets by this many random samples (256 without a number)."),
    ] = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds for each side's run.")] = 600.0,
    keep: Annotated[Path | None, typer.Option(help="Keep copies, logs and records in this folder.")] = None,
    module: Annotated[
        str | None, typer.Option("--module", "-m", help="Run as python -m MODULE from the folder BEFORE.")
    ] = None,
    output_format: Annotated[Format, typer.Option("--format", help="Form of the verdict.")] = "text",
    as_faithful: Annotated[
        bool, typer.Option("--as-faithful", help="Convert without the policies that change training on purpose.")
    ] = False,
    prelude: Annotated[
        Path | None, typer.Option(help="Python file to run before the program, in each process.")
    ] = None,
) -> None:
    """Check that a converted program trains as the original does.  EXECUTES both programs, in copies of their folder.

    Script arguments come behind --: mgmigrate verify train.py -- --epochs 1
    """
    from migrator.cli.check_program import CheckError, Wanted, check_program

    for path in (before, after, prelude):
        if path is not None and not path.exists():
            fail(f"{path}: no such file or folder")
    if before.is_dir() and module is None:
        fail(f"{before}: is a folder; give the program's file, or --module", 2)
    if before.suffix == ".ipynb":
        fail(
            f"{before}: is a notebook, which only its own kernel runs: convert it, and compare two runs of its cells", 3
        )
    settle_above(before)
    options = options_of({**policies, "target": to}, before)
    wanted = Wanted(
        before=before,
        after=after,
        arguments=tuple(ctx.meta.get("script", ())),
        devices=devices,
        steps=steps,
        float64=float64,
        fake_data=fake_data,
        timeout=timeout,
        keep=keep,
        module=module,
        prelude=prelude,
        as_faithful=as_faithful,
        options=options,
        target=options.target,
    )
    sides = [("before", "original"), ("after", f"converted, {devices} processes")]
    try:
        with step_progress(sides) as progress:
            checked = check_program(wanted, progress)
    except CheckError as error:
        fail(str(error))
    put(checked.json if output_format == "json" else checked.text)
    if checked.questions and output_format == "text":
        tell(checked.questions)
    raise typer.Exit(checked.exit_code)
