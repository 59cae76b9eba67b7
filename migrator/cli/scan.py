"""The command `scan`: which programs of a tree use DataParallel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from migrator.cli.console import fail, put, table
from migrator.cli.options import Format
from migrator.cli.settling import settle_above, walk_settled


def scan(
    path: Annotated[Path, typer.Argument(help="A file or a folder.")] = Path(),
    output_format: Annotated[Format, typer.Option("--format", help="Form of the table.")] = "text",
) -> None:
    """List the DataParallel programs in a tree, their role, and whether they convert cleanly."""
    from migrator.trees.scan import scan_file, scan_tree

    if not path.exists():
        fail(f"{path}: {'is a broken symbolic link' if path.is_symlink() else 'no such file or folder'}")
    settle_above(path)
    rows = scan_tree(walk_settled(path)) if path.is_dir() else [scan_file(path)]
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
