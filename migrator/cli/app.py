"""The tool's commands, in the order of `--help`."""

from __future__ import annotations

from typing import Annotated

import typer

from migrator.cli.bench import register as register_bench
from migrator.cli.convert import convert
from migrator.cli.machines import register as register_machines
from migrator.cli.review import review
from migrator.cli.rules import explain, rules
from migrator.cli.scan import scan
from migrator.cli.script_arguments import WithScriptArguments
from migrator.cli.verify import VerifyCommand, verify

app = typer.Typer(
    name="mgmigrate",
    help="Move PyTorch training programs off nn.DataParallel, show why, and check that training is unchanged.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


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


for command in (convert, scan, rules, explain):
    app.command()(command)
app.command(cls=VerifyCommand)(verify)
register_bench(app, WithScriptArguments)
register_machines(app, WithScriptArguments)
app.command()(review)
