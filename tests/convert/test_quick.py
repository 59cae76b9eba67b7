"""Plain command lines are read as typer reads them; everything else is left to typer."""

import inspect
from pathlib import Path
from typing import Literal, get_args, get_origin

import pytest
import typer
from typer.testing import CliRunner

from migrator.cli.convert import convert
from migrator.cli.quick import parse_plainly
from migrator.cli.scan import scan

LINES = [
    ["train.py"],
    ["a.py", "b.py", "--to", "ddp"],
    ["--write", "a.py", "--allow-dirty"],
    ["a.py", "--output", "out", "--format=json"],
    ["a.py", "--select", "MG1", "--select=MG2", "--ignore", "MG501,MG502"],
    ["--check", "--", "-odd.py"],
    ["-"],
    ["a.py", "--sampling", "call", "--unsafe"],
]
ODD = [
    ["--help"],
    [],
    ["a.py", "--nonsense"],
    ["a.py", "--to"],
    ["a.py", "--to", "horovod"],
    ["a.py", "--write=yes"],
    ["a.py", "-x"],
]


def by_typer(words: list[str]) -> dict:
    """What typer would call the command with."""
    given: dict = {}
    app = typer.Typer()

    def spy(**values):
        given.update(values)

    spy.__signature__ = inspect.signature(convert, eval_str=True)
    spy.__annotations__ = {n: p.annotation for n, p in spy.__signature__.parameters.items()}
    app.command()(spy)
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return given


@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_plain_lines_are_read_as_typer_reads_them(words):
    assert parse_plainly(convert, words) == by_typer(words)


@pytest.mark.parametrize("words", ODD, ids=" ".join)
def test_everything_else_is_left_to_typer(words):
    assert parse_plainly(convert, words) is None


def test_one_path_and_its_default():
    assert parse_plainly(scan, [])["path"] == Path()
    assert parse_plainly(scan, ["src", "--format", "json"]) == {"path": Path("src"), "output_format": "json"}
    assert parse_plainly(scan, ["a", "b"]) is None


def test_every_option_means_the_same_in_both_ways_of_reading():
    app = typer.Typer(add_completion=False)
    app.command()(convert)
    options = [p for p in typer.main.get_command(app).params if p.param_type_name == "option" and p.name != "help"]
    kinds = {
        name: get_args(p.annotation)[0] for name, p in inspect.signature(convert, eval_str=True).parameters.items()
    }
    given, read = set(), set()
    for option in options:
        for spelled in (*option.opts, *option.secondary_opts):
            given.add(spelled)
            values = [] if option.is_flag else [str(next(iter(choices(kinds[option.name])), 3))]
            found = parse_plainly(convert, ["a.py", spelled, *values])
            if found is not None:
                read.add(spelled)
                assert found == by_typer(["a.py", spelled, *values]), spelled
    assert given - read == {"--pg-timeout", "--master-port", "--nproc", "--nodes", "--diff-context"}, (
        "what has limits is typer's to check"
    )


def choices(kind):
    """The values that a type names."""
    return get_args(kind) if get_origin(kind) is Literal else [v for k in get_args(kind) for v in choices(k)]
