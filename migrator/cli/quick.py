"""Plain command lines without the argument parser: typer takes longer to parse them than a small program takes to convert.

In: the words of a command line, and a command's function with its typer annotations.  Out: the values to call it with, or
None for whatever is not exactly understood: help, mistakes, completion.  Typer answers those.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints


def parse_plainly(function: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """The keyword arguments that the words give to the function, or None."""
    hints = get_type_hints(function, include_extras=True)
    values: dict[str, Any] = {}
    options: dict[str, tuple[str, Any, bool]] = {}
    positional: list[tuple[str, Any]] = []
    for name, parameter in inspect.signature(function).parameters.items():
        if get_origin(hints[name]) is not Annotated:
            return None
        kind, info = get_args(hints[name])[:2]
        if parameter.default is not inspect.Parameter.empty:
            values[name] = parameter.default
        if type(info).__name__ == "ArgumentInfo":
            positional.append((name, kind))
        elif info.min is None and info.max is None and info.callback is None:  # typer checks the others
            told = [one for one in (info.default, *(info.param_decls or ())) if isinstance(one, str)]
            spellings = [one for one in told if one.startswith("-")]  # typer keeps the first one as the default
            for spelled in spellings or [f"--{name.replace('_', '-')}"]:
                yes, _, no = spelled.partition("/")
                options[yes] = (name, _plain(kind), True)
                if no:
                    options[no] = (name, _plain(kind), False)
    rest = _take_options(list(words), options, values)
    if rest is None or len(positional) != 1:
        return None
    name, kind = positional[0]
    if get_origin(kind) is list:
        if not rest:
            return None
        values[name] = [Path(word) for word in rest]
    elif len(rest) == 1:
        values[name] = Path(rest[0])
    elif rest or name not in values:
        return None
    return values


def _plain(kind: Any) -> Any:
    """The type without its `None`."""
    if get_origin(kind) in (Union, types.UnionType):
        kinds = [k for k in get_args(kind) if k is not type(None)]
        return kinds[0] if len(kinds) == 1 else kind
    return kind


def _take_options(
    words: list[str], options: dict[str, tuple[str, Any, bool]], values: dict[str, Any]
) -> list[str] | None:
    """Put the options' values among the values; returns what is left, or None for an option that is not plain."""
    rest: list[str] = []
    while words:
        word = words.pop(0)
        if word == "--":
            return rest + words
        if word == "-" or not word.startswith("-"):
            rest.append(word)
            continue
        spelled, equals, given = word.partition("=")
        if spelled not in options:
            return None
        name, kind, meant = options[spelled]
        if kind is bool:
            if equals:
                return None
            values[name] = meant
            continue
        if not equals:
            if not words:
                return None
            given = words.pop(0)
        value = _value(kind, given)
        if value is None:
            return None
        values[name] = [*(values.get(name) or []), *value] if isinstance(value, list) else value
    return rest


def _value(kind: Any, given: str) -> Any:
    """The value of one option, or None when it is not what the option takes."""
    if get_origin(kind) is Literal:
        return given if given in get_args(kind) else None
    if kind is Path:
        return Path(given)
    if kind is str:
        return given
    if get_origin(kind) is list and get_args(kind) == (str,):
        return [given]
    if kind in (int, float):
        try:
            return kind(given)
        except ValueError:
            return None
    return None
