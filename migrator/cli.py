"""The command line: the only place that prints.

Heavy parts (libcst, the rules, torch) are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NoReturn

import typer

if TYPE_CHECKING:
    from codemods.base import Options
    from migrator.convert import Conversion

app = typer.Typer(
    name="mgmigrate",
    help="Move PyTorch training programs off nn.DataParallel, show why, and check that training is unchanged.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Target = Literal["ddp", "accelerate"]


def _version(value: bool) -> None:
    if value:
        from importlib.metadata import version

        typer.echo(f"mgmigrate {version('mgmigrate')}")
        raise typer.Exit()


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Exit codes: 0 fine · 1 --check would change something, or verify says DIFFERENT · 2 usage · 3 a person must decide,
    or not verifiable · 4 failure."""


def _fail(message: str, code: int = 4) -> NoReturn:
    typer.echo(f"mgmigrate: {message}", err=True)
    raise typer.Exit(code)


def _entries(paths: list[Path]) -> tuple[list[Path], bool]:
    """Entry files behind the paths that the user gave; the flag says that a folder was among them."""
    from migrator.scan import find_entries

    entries: list[Path] = []
    folder = False
    for path in paths:
        if path.is_dir():
            folder = True
            found = find_entries(path)
            if not found and not any(path.rglob("*.py")):
                _fail(f"{path}: holds no Python files")
            entries += found
        elif not path.exists():
            _fail(f"{path}: no such file or folder")
        else:
            entries.append(path)
    return list(dict.fromkeys(entries)), folder


def _convert_all(entries: list[Path], options: Options, in_tree: bool) -> tuple[list[Conversion], int]:
    from migrator.convert import convert_program
    from migrator.source import SourceError, decode_source

    done: list[Conversion] = []
    code = 0
    for entry in entries:
        try:
            if str(entry) == "-":
                source = decode_source("stdin.py", sys.stdin.buffer.read())
                done.append(convert_program(Path("stdin.py"), options, source))
            else:
                done.append(convert_program(entry, options))
        except SourceError as error:
            typer.echo(f"mgmigrate: {error}", err=True)
            code = max(code, 3 if in_tree else 4)
    return done, max([code, *(c.exit_code for c in done)])


@app.command()
def convert(
    paths: Annotated[
        list[Path], typer.Argument(help="Entry files, a folder, or - for standard input.", allow_dash=True)
    ],
    to: Annotated[Target, typer.Option("--to", help="Form of the converted program.")] = "ddp",
    write: Annotated[bool, typer.Option("--write", help="Change the files in place (all or none).")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write the changed files under this folder instead.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether something would change (exit code 1).")
    ] = False,
    output_format: Annotated[Literal["text", "json"], typer.Option("--format", help="Form of the report.")] = "text",
    select: Annotated[list[str] | None, typer.Option("--select", help="Only these rules (id or prefix).")] = None,
    ignore: Annotated[list[str] | None, typer.Option("--ignore", help="Not these rules (id or prefix).")] = None,
    unsafe: Annotated[
        bool, typer.Option("--unsafe", help="Also take fixes that change a hyper-parameter or a metric.")
    ] = False,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Write although git has uncommitted changes there.")
    ] = False,
    sampling: Annotated[
        Literal["auto", "distributed", "batch", "call"], typer.Option(help="How processes share a batch.")
    ] = "auto",
) -> None:
    """Convert programs, show the diff on stdout and what a person must know on stderr.  Runs none of the user's code."""
    from codemods.base import Options
    from migrator.report import diff_text, summary, to_json

    if to == "accelerate":
        _fail("--to accelerate is not built yet; --to ddp is", 2)
    options = Options(
        target=to, sampling=sampling, unsafe=unsafe, select=tuple(_split(select)), ignore=tuple(_split(ignore))
    )
    dash = [str(p) for p in paths] == ["-"]
    entries, in_tree = (paths, False) if dash else _entries(paths)
    conversions, code = _convert_all(entries, options, in_tree)
    if output_format == "json":
        typer.echo(to_json(conversions), nl=False)
    else:
        for conversion in conversions:
            _print_diff(diff_text(conversion))
            typer.echo(summary(conversion), err=True, nl=False)
    if write or output is not None:
        _write(conversions, options, output, allow_dirty)
    if check and any(c.changes for c in conversions):
        code = max(code, 1)
    raise typer.Exit(code)


def _split(values: list[str] | None) -> list[str]:
    return [part.strip() for value in values or [] for part in value.split(",") if part.strip()]


def _print_diff(text: str) -> None:
    if not sys.stdout.isatty():
        sys.stdout.write(text)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    Console().print(Syntax(text, "diff", background_color="default", word_wrap=False))


def _write(conversions: list[Conversion], options: Options, output: Path | None, allow_dirty: bool) -> None:
    from migrator.convert import convert_program
    from migrator.write import WriteError, check_result, dirty_files, encoded, write_files

    contents: dict[Path, bytes] = {}
    for conversion in conversions:
        try:
            check_result(conversion)
        except WriteError as error:
            _fail(str(error))
        for change in conversion.changes:
            target = Path(change.path)
            if output is not None:
                target = output / (
                    target.name
                    if target.is_absolute() and not _below(target)
                    else target.relative_to(Path.cwd())
                    if target.is_absolute()
                    else _flat(target, conversion)
                )
            data = encoded(change)
            if contents.get(target, data) != data:
                _fail(f"{target}: two programs want it changed differently; convert them one at a time")
            contents[target] = data
    if output is None and not allow_dirty:
        dirty = dirty_files(list(contents))
        if dirty:
            _fail(f"{', '.join(dirty)}: has uncommitted changes; commit them, or give --allow-dirty")
    try:
        write_files(contents)
    except WriteError as error:
        _fail(str(error))
    _ = (options, convert_program)


def _below(path: Path) -> bool:
    return path.is_relative_to(Path.cwd())


def _flat(target: Path, conversion: Conversion) -> Path:
    """Below the output folder, paths are relative to the entry's folder."""
    folder = Path(conversion.entry).parent
    return target.relative_to(folder) if target.is_relative_to(folder) else target


@app.command()
def scan(path: Annotated[Path, typer.Argument(help="A file or a folder.")] = Path()) -> None:
    """List the DataParallel programs in a tree, their role, and whether they convert cleanly."""
    from rich.console import Console
    from rich.table import Table

    from migrator.scan import scan_tree

    if not path.exists():
        _fail(f"{path}: no such file or folder")
    table = Table("program", "role", "wraps", "way", "result", box=None)
    rows = scan_tree(path)
    for row in rows:
        table.add_row(row.path, row.role, str(row.wraps), row.way, row.result)
    Console().print(table if rows else "no program here uses DataParallel")
    raise typer.Exit(3 if any(row.questions for row in rows) else 0)


@app.command()
def rules() -> None:
    """List the rules."""
    from codemods import load_rules

    for rule in load_rules():
        typer.echo(f"{rule.id}  {rule.name:<20} {rule.applicability:<12} {rule.summary}")


@app.command()
def explain(rule_id: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Say what a rule is about and why."""
    from codemods import load_rules

    for rule in load_rules():
        if rule.id == rule_id.upper():
            typer.echo(f"{rule.id} {rule.name} ({rule.applicability})\n\n{rule.document.strip()}\n")
            if rule.hazards:
                typer.echo("Hazards: " + ", ".join(rule.hazards))
            return
    _fail(f"there is no rule {rule_id}; `mgmigrate rules` lists them", 2)
