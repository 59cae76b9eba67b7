"""The command `convert`: show, write or check what a conversion would change."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from migrator import timing
from migrator.cli.choosing import choice_of
from migrator.cli.console import fail, tell
from migrator.cli.options import Ignore, KeepPrefix, Sampling, Select, To, Unsafe, read_options, with_policies
from migrator.cli.programs import convert_all, convert_input, named_programs
from migrator.cli.settling import settle_above
from migrator.cli.writing import check_report_file, write_changes, write_launch_config, write_report_file

if TYPE_CHECKING:
    from migrator.convert.conversion import Conversion
    from migrator.load.source import SourceError

ConvertFormat = Literal["text", "json", "sarif", "github", "markdown", "patch"]


@with_policies
def convert(
    paths: Annotated[
        list[Path], typer.Argument(help="Entry files, a folder, or - for standard input.", allow_dash=True)
    ],
    policies: dict[str, Any],
    to: To = None,
    write: Annotated[bool, typer.Option("--write", help="Change the files in place (all or none).")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write the changed files under this folder instead.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether something would change (exit code 1).")
    ] = False,
    output_format: Annotated[ConvertFormat, typer.Option("--format", help="Form of the report.")] = "text",
    select: Select = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    scripts: Annotated[
        bool | None,
        typer.Option(
            "--scripts", help="Also change the lines of shell scripts, Makefiles and READMEs that start them."
        ),
    ] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Write although git has uncommitted changes there.")
    ] = False,
    sampling: Sampling = None,
    keep_prefix: KeepPrefix = None,
    launch_config: Annotated[
        Path | None, typer.Option("--launch-config", help="Write a configuration for `accelerate launch` to this file.")
    ] = None,
    apply: Annotated[
        Path | None, typer.Option("--apply", help="Take the fixes that this selection (JSON) accepts, and no others.")
    ] = None,
    interactive: Annotated[
        bool, typer.Option("--interactive", "-i", help="Ask about every fix, as `git add -p` does about hunks.")
    ] = False,
    save_selection: Annotated[
        Path | None,
        typer.Option("--save-selection", help="Write the answers of --interactive to this file, for --apply."),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            "--report",
            help="Also write a report to this file, in the form of its suffix: .html (a page), .json, .sarif, .md or .patch.",
        ),
    ] = None,
    diff_context: Annotated[
        int, typer.Option("--diff-context", min=0, metavar="N", help="Unchanged lines around each change.")
    ] = 3,
    color: Annotated[
        Literal["auto", "always", "never"],
        typer.Option(
            "--color", help="Colours: on a terminal (auto; NO_COLOR and FORCE_COLOR count), always, or never."
        ),
    ] = "auto",
    no_pager: Annotated[
        bool, typer.Option("--no-pager", help="Show the diff without $PAGER, which is for terminals only.")
    ] = False,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Show only errors and what a person must decide.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also say how long each stage took.")] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Also print one line with the figures of the run.")] = False,
) -> None:
    """Convert programs, show the diff on stdout and what a person must know on stderr.  Runs none of the user's code.

    Settings stand in the table tool.mgmigrate of the nearest pyproject.toml, by the names of the flags; flags win.
    """
    begin = time.perf_counter()
    if verbose:
        timing.start()
    dash = "-" in map(str, paths)
    _refuse_contradictions(paths, dash, write, output, check)
    given = {"target": to, "sampling": sampling, "keep_prefix": keep_prefix, "unsafe": unsafe, "scripts": scripts}
    options = read_options({**policies, **given}, select, ignore, Path() if dash else paths[0])
    if report is not None:
        check_report_file(report, dash)
    if options.target != "accelerate" and (options.accumulate or launch_config is not None):
        fail("--accumulate and --launch-config are for --to accelerate", 2)
    entries, problems = ([], []) if dash else named_programs(paths, options)
    choose = choice_of(apply, interactive, save_selection, 1 if dash else len(entries), dash)
    if dash:
        conversions, bases, errors = convert_input(options, choose)
    else:
        conversions, bases, errors = convert_all(entries, options, choose)
        if choose is None and len(conversions) > 1:
            from migrator.trees.together import convert_together

            conversions, bases = convert_together(conversions, bases, options)
        errors += problems
    in_tree = not dash and any(path.is_dir() for path in paths)
    with timing.stage("showing"):
        from migrator.cli.display import View, show

        show(conversions, errors, View(output_format, diff_context, color, not no_pager, quiet), in_tree)
    if report is not None:
        write_report_file(report, conversions, errors, options)
    if write or output is not None:
        settle_above(*([] if output is None else [output]))
        if errors and not in_tree:
            fail("nothing was written")
        write_changes(conversions, bases, options, output, allow_dirty, choose is not None)
    if launch_config is not None:
        write_launch_config(launch_config, options)
    _tell_figures(conversions, errors, verbose, stats, begin)
    codes = [c.exit_code for c in conversions] + [3 if in_tree else 4 for _ in errors]
    codes += [1 for c in conversions if check and c.changes]
    raise typer.Exit(max(codes, default=0))


def _refuse_contradictions(paths: Sequence[Path], dash: bool, write: bool, output: Path | None, check: bool) -> None:
    """End with a word on flags that cannot be meant together."""
    if dash and (len(paths) > 1 or write or output is not None):
        fail("- (standard input) stands alone, and is only shown: give a file for --write and --output", 2)
    if check and (write or output is not None):
        fail("--check changes nothing: leave out --write and --output", 2)
    if write and output is not None:
        fail("--write changes the files in place, --output leaves them alone: give one of them", 2)


def _tell_figures(
    conversions: Sequence[Conversion], errors: Sequence[SourceError], verbose: bool, stats: bool, begin: float
) -> None:
    seconds = time.perf_counter() - begin
    if verbose:
        taken = timing.taken()
        rows = [*taken.items(), ("the rest", max(0.0, seconds - sum(taken.values()))), ("all", seconds)]
        tell("time:\n" + "".join(f"  {name:<16} {part:.3f} s\n" for name, part in rows))
    if stats:
        from migrator.cli.display import stats_line

        tell(stats_line(conversions, errors, seconds))
