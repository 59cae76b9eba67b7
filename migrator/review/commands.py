"""The commands that the page offers to copy.

In: an entry and the options of its conversion.  Out: command lines that mean the same conversion again, quoted for a shell.
"""

from __future__ import annotations

import dataclasses
import os
import shlex

from codemods.options import Options
from migrator.policies import POLICIES

_OWN = {"sampling": "--sampling", "keep_prefix": "--keep-prefix", "unsafe": "--unsafe"}


def option_words(options: Options) -> list[str]:
    """The flags that give these options, those apart that are the defaults."""
    flags = {policy.field: f"--{policy.name}" for policy in POLICIES} | _OWN
    words = ["--to", options.target]
    for field in dataclasses.fields(Options):
        value = getattr(options, field.name)
        if field.name in flags and value != field.default:
            words += [flags[field.name]] if value is True else [flags[field.name], str(value)]
    return words


def convert_command(entry: str, options: Options) -> str:
    """`mgmigrate convert` for a program, without what says where to write."""
    words = ["mgmigrate", "convert", _file(entry), *option_words(options)]
    for flag, rules in (("--select", options.select), ("--ignore", options.ignore)):
        words += [flag, ",".join(rules)] if rules else []
    return shlex.join(words)


def check_commands(entry: str, options: Options) -> tuple[str, str]:
    """`mgmigrate verify` for a program, and for the result of a conversion that `--output converted` has written.

    Where the options hold something that `verify` does not take, the conversion is written first in both.
    """
    of_result = shlex.join(["mgmigrate", "verify", _file(entry), f"converted/{os.path.basename(entry)}"])
    plain = dataclasses.replace(options, sampling="auto", unsafe=False, keep_prefix=False, select=(), ignore=())
    if plain != options:
        return f"{convert_command(entry, options)} --output converted && {of_result}", of_result
    return shlex.join(["mgmigrate", "verify", _file(entry), *option_words(options)]), of_result


def _file(entry: str) -> str:
    """A path that no command takes for an option."""
    return f"./{entry}" if entry.startswith("-") else entry
