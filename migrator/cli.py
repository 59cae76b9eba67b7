"""The command line.

Heavy parts (libcst, the rules, torch) are imported inside the commands, so that `--help` answers at once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn

import typer
from typer.core import TyperCommand

from migrator.bench_cli import register as register_bench
from migrator.machine_cli import register as register_machines
from migrator.policies import with_policies
from migrator.review_cli import register as register_review

if TYPE_CHECKING:
    from codemods.base import Options
    from migrator.convert import Choice, Conversion
    from migrator.scan import Tree
    from migrator.source import SourceError
    from migrator.tree import Entry

app = typer.Typer(
    name="mgmigrate",
    help="Move PyTorch training programs off nn.DataParallel, show why, and check that training is unchanged.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
Target = Literal["ddp", "accelerate"]
Format = Literal["text", "json"]
ConvertFormat = Literal["text", "json", "sarif", "github", "markdown", "patch"]


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
    """Move PyTorch training programs off nn.DataParallel, show why, and check that training is unchanged.

    Exit codes: 0 fine · 1 --check would change something, or verify says DIFFERENT · 2 usage · 3 a person must decide, or
    not verifiable · 4 failure.
    """


def _fail(message: str, code: int = 4) -> NoReturn:
    from migrator.console import tell

    tell(f"mgmigrate: {message}\n")
    raise typer.Exit(code)


def _settle(journals: Iterable[Path]) -> bool:
    """Finish or undo what an interrupted --write left behind; True when there was something."""
    from migrator.console import tell
    from migrator.journal import WriteError, recover

    settled = False
    for journal in dict.fromkeys(journals):
        try:
            told = recover(journal)
        except WriteError as error:
            _fail(f"{error}; {error.outcome}")
        if told is not None:
            tell(f"mgmigrate: {told}\n")
            settled = True
    return settled


def settle_above(*paths: Path) -> None:
    """The same for the trees that the paths lie in."""
    from migrator.journal import journals_above

    _settle(journal for path in paths for journal in journals_above(path))


def _walk(folder: Path) -> Tree:
    """The files below a folder, as they are when interrupted writes are settled."""
    from migrator.scan import walk

    tree = walk(folder)
    if _settle(tree.journals):
        tree = walk(folder)
    if not tree.files and not tree.problems:
        _fail(f"{folder}: holds no Python files")
    return tree


def _rule_ids(incomplete: str) -> list[tuple[str, str]]:
    """Shell completion of rule ids; their names are short enough to stay on one line."""
    from codemods import load_rules

    return [(rule.id, rule.name) for rule in load_rules() if rule.id.startswith(incomplete.upper())]


# -------------------------------------------------------------------- convert
def _entries(paths: Sequence[Path], options: Options) -> tuple[list[Entry], list[SourceError]]:
    """The files to convert, and what could not be read on the way to them."""
    from migrator.policies import PolicyError, named_entries
    from migrator.scan import candidates
    from migrator.tree import Entry

    settle_above(*paths)
    entries: dict[Path, Entry] = {}
    problems: list[SourceError] = []
    for path in paths:
        if path.is_dir():
            try:
                named = named_entries(path, options)
            except PolicyError as error:
                _fail(str(error), 2)
            entries.update((one.resolve(), Entry(one, path)) for one in named)
            found, unread = ([], []) if named else candidates(_walk(path))
            problems += unread
            for one in found:
                entries.setdefault(one.path.resolve(), Entry(one.path, path, one))
        elif path.is_symlink() and not path.exists():
            _fail(f"{path}: is a broken symbolic link")
        elif not path.exists():
            _fail(f"{path}: no such file or folder")
        else:
            entries[path.resolve()] = Entry(path, path.parent)
    return list(entries.values()), problems


def _convert_all(
    entries: Sequence[Entry], options: Options, choose: Choice | None = None
) -> tuple[list[Conversion], list[Path], list[SourceError]]:
    """Convert each program; what cannot be read is an error of its own and stops no other."""
    from migrator.console import tell
    from migrator.scan import VENDORED
    from migrator.selection import SelectionError
    from migrator.source import SourceError
    from migrator.tree import LeftAlone, convert_entries

    done: list[Conversion] = []
    bases: list[Path] = []
    errors: list[SourceError] = []
    try:
        for entry, result in zip(entries, convert_entries(entries, options, choose), strict=True):
            if isinstance(result, SourceError):
                errors.append(result)
            elif isinstance(result, LeftAlone):
                tell(f"mgmigrate: {result.path}: {VENDORED}\n")
            elif result is not None:
                done.append(result)
                bases.append(entry.base)
    except SelectionError as error:
        _fail(str(error), 2)
    return done, bases, errors


def _convert_input(options: Options, choose: Choice | None) -> tuple[list[Conversion], list[Path], list[SourceError]]:
    """Convert what comes on standard input."""
    from migrator.source import SourceError, decode_source
    from migrator.tree import convert_source

    name = Path("stdin.py")
    try:
        source = decode_source(str(name), sys.stdin.buffer.read())
        return [convert_source(name, source, options, choose)], [Path()], []
    except SourceError as error:
        return [], [], [error]


@app.command()
@with_policies
def convert(
    paths: Annotated[
        list[Path], typer.Argument(help="Entry files, a folder, or - for standard input.", allow_dash=True)
    ],
    policies: dict[str, Any],
    to: Annotated[Target | None, typer.Option("--to", help="Form of the converted program (default: ddp).")] = None,
    write: Annotated[bool, typer.Option("--write", help="Change the files in place (all or none).")] = False,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write the changed files under this folder instead.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether something would change (exit code 1).")
    ] = False,
    output_format: Annotated[ConvertFormat, typer.Option("--format", help="Form of the report.")] = "text",
    select: Annotated[
        list[str] | None,
        typer.Option("--select", help="Only these rules (id or prefix).", autocompletion=_rule_ids),
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", help="Not these rules (id or prefix).", autocompletion=_rule_ids)
    ] = None,
    unsafe: Annotated[
        bool | None, typer.Option("--unsafe", help="Also take fixes that change a hyper-parameter or a metric.")
    ] = None,
    scripts: Annotated[
        bool | None,
        typer.Option(
            "--scripts", help="Also change the lines of shell scripts, Makefiles and READMEs that start them."
        ),
    ] = None,
    allow_dirty: Annotated[
        bool, typer.Option("--allow-dirty", help="Write although git has uncommitted changes there.")
    ] = False,
    sampling: Annotated[
        Literal["auto", "distributed", "batch", "call"] | None,
        typer.Option(help="How processes share a batch (default: auto).", show_default=False),
    ] = None,
    keep_prefix: Annotated[
        bool | None,
        typer.Option("--keep-prefix", help='With --to accelerate: checkpoints keep the "module." in their keys.'),
    ] = None,
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
    from migrator import timing

    begin = time.perf_counter()
    if verbose:
        timing.start()
    dash = "-" in map(str, paths)
    if dash and (len(paths) > 1 or write or output is not None):
        _fail("- (standard input) stands alone, and is only shown: give a file for --write and --output", 2)
    if check and (write or output is not None):
        _fail("--check changes nothing: leave out --write and --output", 2)
    if write and output is not None:
        _fail("--write changes the files in place, --output leaves them alone: give one of them", 2)
    given: dict[str, Any] = {"target": to, "sampling": sampling, "keep_prefix": keep_prefix, "unsafe": unsafe}
    given["scripts"] = scripts
    given |= {"select": _known_rules(select), "ignore": _known_rules(ignore)}
    options = _options({**policies, **given}, Path() if dash else paths[0])
    _check_report(report, dash)
    if options.target != "accelerate" and (options.keep_prefix or options.accumulate or launch_config is not None):
        _fail("--keep-prefix, --accumulate and --launch-config are for --to accelerate", 2)
    if dash:
        conversions, bases, errors = _convert_input(
            options, choose := _choice(apply, interactive, save_selection, 1, dash)
        )
    else:
        entries, problems = _entries(paths, options)
        choose = _choice(apply, interactive, save_selection, len(entries))
        conversions, bases, errors = _convert_all(entries, options, choose)
        if choose is None and len(conversions) > 1:
            from migrator.together import convert_together

            conversions, bases = convert_together(conversions, bases, options)
        errors += problems
    in_tree = not dash and any(path.is_dir() for path in paths)
    with timing.stage("showing"):
        from migrator.display import View, show

        view = View(output_format, diff_context, color, not no_pager, quiet)
        show(conversions, errors, view, in_tree)
    if report is not None:
        _write_report(report, conversions, errors, options)
    if write or output is not None:
        settle_above(*([] if output is None else [output]))
        if errors and not in_tree:
            _fail("nothing was written")
        _write(conversions, bases, options, output, allow_dirty, choose is not None)
    if launch_config is not None:
        _write_launch_config(launch_config, options)
    _tell_figures(conversions, errors, verbose, stats, begin)
    codes = [c.exit_code for c in conversions] + [3 if in_tree else 4 for _ in errors]
    codes += [1 for c in conversions if check and c.changes]
    raise typer.Exit(max(codes, default=0))


def _tell_figures(
    conversions: Sequence[Conversion], errors: Sequence[SourceError], verbose: bool, stats: bool, begin: float
) -> None:
    from migrator import timing
    from migrator.console import tell

    seconds = time.perf_counter() - begin
    if verbose:
        taken = timing.taken()
        rows = [*taken.items(), ("the rest", max(0.0, seconds - sum(taken.values()))), ("all", seconds)]
        tell("time:\n" + "".join(f"  {name:<16} {part:.3f} s\n" for name, part in rows))
    if stats:
        from migrator.display import stats_line

        tell(stats_line(conversions, errors, seconds))


def _check_report(path: Path | None, dash: bool) -> None:
    """A report that cannot be made is refused before the work is done."""
    if path is None:
        return
    from migrator.reports import ReportError, check_report

    try:
        check_report(path, dash)
    except ReportError as error:
        _fail(str(error), 2)


def _write_report(
    path: Path, conversions: Sequence[Conversion], errors: Sequence[SourceError], options: Options
) -> None:
    from migrator.reports import Report, ReportError, write_report

    try:
        write_report(path, Report(conversions, errors, options))
    except ReportError as error:
        _fail(str(error))


def convert_paths(paths: Sequence[Path], options: Options) -> tuple[list[Conversion], list[SourceError]]:
    """Convert the programs behind the paths that a command was given."""
    entries, problems = _entries(paths, options)
    conversions, _, errors = _convert_all(entries, options)
    return conversions, errors + problems


def read_options(flags: dict[str, Any], select: list[str] | None, ignore: list[str] | None, near: Path) -> Options:
    """The options that the flags of a command and the nearest pyproject.toml give."""
    options = _options({**flags, "select": _known_rules(select), "ignore": _known_rules(ignore)}, near)
    if options.target != "accelerate" and options.keep_prefix:
        _fail("--keep-prefix is for --to accelerate", 2)
    return options


def _choice(
    apply: Path | None, interactive: bool, save: Path | None, programs: int, dash: bool = False
) -> Choice | None:
    """What leaves fixes out, where the user gives a selection or wants to be asked."""
    if save is not None and not interactive:
        _fail("--save-selection keeps the answers of --interactive", 2)
    if apply is None and not interactive:
        return None
    if apply is not None and interactive:
        _fail("--apply has the answers already: leave out --interactive", 2)
    if programs != 1:
        _fail(f"{'--apply' if apply else '--interactive'} is for one program, and {programs} are given", 2)
    from migrator.selection import SelectionError, chosen_ids, load_selection, selected

    if interactive:
        if dash or not sys.stdin.isatty():
            _fail("--interactive asks on a terminal, and standard input is none: use --apply", 2)
        return selected(lambda conversion: _asked(conversion, save))
    assert apply is not None
    try:
        selection = load_selection(apply)
    except SelectionError as error:
        _fail(str(error), 2)
    return selected(lambda conversion: chosen_ids(conversion, selection))


def _asked(conversion: Conversion, save: Path | None) -> set[str]:
    """What the user refuses, asked on the terminal, and kept in a file where one is named."""
    from migrator.console import terminal
    from migrator.interactive import ask_for_selection
    from migrator.selection import chosen_ids, save_selection

    try:
        selection = ask_for_selection(conversion, terminal())
    except KeyboardInterrupt:
        _fail("stopped; nothing was changed", 130)
    if save is not None:
        save_selection(save, selection)
    return chosen_ids(conversion, selection)


def _write_launch_config(path: Path, options: Options) -> None:
    from migrator.launch import launch_config

    try:
        path.write_text(launch_config(options), encoding="utf-8")
    except OSError as error:
        _fail(f"{path}: cannot be written: {error.strerror}")


def _options(flags: dict[str, Any], near: Path) -> Options:
    """The options that the flags and the nearest pyproject.toml give."""
    from migrator.policies import PolicyError, choose

    try:
        options = choose(flags, near)
    except PolicyError as error:
        _fail(str(error), 2)
    _known_rules([*options.select, *options.ignore])
    return options


def _known_rules(values: list[str] | None) -> tuple[str, ...]:
    """Rule ids and prefixes; one that fits no rule is a mistake worth hearing of."""
    from codemods import load_rules

    wanted = [part.strip().upper() for value in values or [] for part in value.split(",") if part.strip()]
    for prefix in wanted:
        if not any(rule.id.startswith(prefix) for rule in load_rules()):
            _fail(f"no rule has the id or prefix {prefix}; `mgmigrate rules` lists them", 2)
    return tuple(wanted)


def _write(
    conversions: list[Conversion],
    bases: list[Path],
    options: Options,
    output: Path | None,
    allow_dirty: bool,
    partial: bool,
) -> None:
    from migrator.helpers import is_helper_module
    from migrator.write import WriteError, check_result, dirty_files, target_contents, write_files

    try:
        for conversion in conversions:
            check_result(conversion, options, partial, conversions)
        contents = target_contents(conversions, output, bases)
        for target, data in contents.items():
            if output is not None and is_helper_module(target.stem) and target.exists() and target.read_bytes() != data:
                raise WriteError(
                    f"{target}: holds the helpers of another conversion; give this one a folder of its own"
                )
        if output is None and not allow_dirty:
            dirty = dirty_files(list(contents))
            if dirty:
                more = f" and {len(dirty) - 3} more" if len(dirty) > 3 else ""
                what = f"{', '.join(dirty[:3])}{more}: not committed to git"
                raise WriteError(f"{what}; commit, so that you can go back, or give --allow-dirty")
        write_files(contents)
    except WriteError as error:
        _fail(f"{error}; {error.outcome}")


# -------------------------------------------------------------------- scan, rules, explain
@app.command()
def scan(
    path: Annotated[Path, typer.Argument(help="A file or a folder.")] = Path(),
    output_format: Annotated[Format, typer.Option("--format", help="Form of the table.")] = "text",
) -> None:
    """List the DataParallel programs in a tree, their role, and whether they convert cleanly."""
    from migrator.console import put, table
    from migrator.scan import scan_file, scan_tree

    if not path.exists():
        _fail(f"{path}: {'is a broken symbolic link' if path.is_symlink() else 'no such file or folder'}")
    settle_above(path)
    rows = scan_tree(_walk(path)) if path.is_dir() else [scan_file(path)]
    if output_format == "json":
        import json

        put(json.dumps({"version": 1, "programs": [row.dump() for row in rows]}, indent=2, ensure_ascii=False) + "\n")
    elif rows:
        head = ("program", "role", "wraps", "way", "result")
        put(table(head, [(row.path, row.role, str(row.wraps), row.way, row.result) for row in rows]))
    else:
        put("no program here uses DataParallel\n")
    alone = not path.is_dir() and any(row.role == "unknown" for row in rows)
    raise typer.Exit(4 if alone else 3 if any(row.questions for row in rows) else 0)


@app.command()
def rules() -> None:
    """List the rules."""
    from codemods import load_rules
    from migrator.console import put

    for rule in load_rules():
        put(f"{rule.id}  {rule.name:<20} {rule.applicability:<12} {rule.summary}\n")


@app.command()
def explain(rule_id: Annotated[str, typer.Argument(metavar="ID", autocompletion=_rule_ids)]) -> None:
    """Say what a rule is about and why."""
    from codemods import load_rules
    from migrator.console import put

    for rule in load_rules():
        if rule.id == rule_id.upper():
            put(f"{rule.id} {rule.name} ({rule.applicability})\n\n{rule.document.strip()}\n")
            if rule.why:
                put(f"\nWhy it is not safe: {rule.why}\n")
            if rule.hazards:
                put("\nHazards: " + ", ".join(rule.hazards) + "\n")
            if rule.sources:
                put("\nSources:\n" + "".join(f"  {source}\n" for source in rule.sources))
            return
    _fail(f"there is no rule {rule_id}; `mgmigrate rules` lists them", 2)


# -------------------------------------------------------------------- verify
FAKE_SAMPLES = 256  # of --fake-data without a number


class _WithScriptArguments(TyperCommand):
    """What stands behind `--` is the script's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta["script"] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)


class _VerifyCommand(_WithScriptArguments):
    """`--fake-data` stands alone, or with a number."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        for at, word in enumerate(args[: args.index("--") if "--" in args else None]):
            number = args[at + 1] if at + 1 < len(args) else ""
            if word == "--fake-data" and not number.lstrip("-").isdigit():
                args = [*args[: at + 1], str(FAKE_SAMPLES), *args[at + 1 :]]
                break
        return super().parse_args(ctx, args)


@app.command(cls=_VerifyCommand)
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
    from migrator.check_program import CheckError, Wanted, check_program
    from migrator.console import put, step_progress, tell

    for path in (before, after, prelude):
        if path is not None and not path.exists():
            _fail(f"{path}: no such file or folder")
    if before.is_dir() and module is None:
        _fail(f"{before}: is a folder; give the program's file, or --module", 2)
    if before.suffix == ".ipynb":
        _fail(
            f"{before}: is a notebook, which only its own kernel runs: convert it, and compare two runs of its cells", 3
        )
    settle_above(before)
    options = _options({**policies, "target": to}, before)
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
        _fail(str(error))
    put(checked.json if output_format == "json" else checked.text)
    if checked.questions and output_format == "text":
        tell(checked.questions)
    raise typer.Exit(checked.exit_code)


# -------------------------------------------------------------------- doctor, advise, bench, launch
register_bench(app, _WithScriptArguments)
register_machines(app, _WithScriptArguments)
register_review(app)
