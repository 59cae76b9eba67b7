"""The command `review`: convert, and show what would change on a page in the browser.

Imported with the command line, so nothing here imports more than typer; the work is imported inside the command.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from migrator.cli.console import fail, tell
from migrator.cli.options import Ignore, KeepPrefix, Sampling, Select, To, Unsafe, read_options, with_policies
from migrator.cli.programs import convert_paths

if TYPE_CHECKING:
    from migrator.review.verdict import Verdict


@with_policies
def review(
    paths: Annotated[list[Path], typer.Argument(help="Entry files, or a folder.")],
    policies: dict[str, Any],
    to: To = None,
    output: Annotated[
        Path | None, typer.Option("--output", help="Write the page to this file (default: a temporary one).")
    ] = None,
    no_open: Annotated[bool, typer.Option("--no-open", help="Only write the page; open no browser.")] = False,
    verdict: Annotated[
        Path | None, typer.Option("--verdict", help="Also show what verify --format json has written to this file.")
    ] = None,
    select: Select = None,
    ignore: Ignore = None,
    unsafe: Unsafe = None,
    sampling: Sampling = None,
    keep_prefix: KeepPrefix = None,
) -> None:
    """Show on a page what convert would do and why, to accept or refuse it fix by fix.  Changes no program, runs none."""
    from migrator.formats.files import ReportError, check_report, write_report
    from migrator.formats.report import Report

    if output is not None and output.suffix.lower() != ".html":
        fail(f"{output}: the page is HTML: give a name that ends with .html", 2)
    try:
        check_report(output or Path("review.html"))
    except ReportError as error:
        fail(str(error))
    said = _verdict(verdict)
    flags = {"target": to, "sampling": sampling, "keep_prefix": keep_prefix, "unsafe": unsafe}
    options = read_options({**policies, **flags}, select, ignore, paths[0])
    conversions, errors = convert_paths(paths, options)
    if said is not None and len(conversions) != 1:
        fail(f"--verdict is about one program, and {len(conversions)} were converted", 2)
    page = output or _temporary_page()
    try:
        write_report(page, Report(conversions, errors, options, said))
    except ReportError as error:
        fail(str(error))
    for problem in errors:
        tell(f"mgmigrate: {problem}\n")
    opened = not no_open and _opens(page)
    tell(f"{'opened' if opened else 'the review is in'} {page}\n")
    in_tree = any(path.is_dir() for path in paths)
    codes = [conversion.exit_code for conversion in conversions] + [3 if in_tree else 4 for _ in errors]
    raise typer.Exit(max(codes, default=0))


def _verdict(path: Path | None) -> Verdict | None:
    if path is None:
        return None
    from migrator.review.verdict import VerdictError, read_verdict

    try:
        return read_verdict(path)
    except VerdictError as error:
        fail(str(error))


def _temporary_page() -> Path:
    """A file in a folder of its own, which stays: the browser may read it at any time."""
    import tempfile

    return Path(tempfile.mkdtemp(prefix="mgmigrate-review-")) / "review.html"


def _opens(page: Path) -> bool:
    """Open the page in the user's browser; False where there is none."""
    import webbrowser

    return webbrowser.open(page.resolve().as_uri())
