"""Flags that several commands share, and the options that they give together with pyproject.toml."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import typer

from migrator.cli.console import fail
from migrator.policies import LEAST, POLICIES, Policy

if TYPE_CHECKING:
    from codemods.options import Options


def rule_ids(incomplete: str) -> list[tuple[str, str]]:
    """Shell completion of rule ids; their names are short enough to stay on one line."""
    from codemods.registry import load_rules

    return [(rule.id, rule.name) for rule in load_rules() if rule.id.startswith(incomplete.upper())]


Target = Literal["ddp", "accelerate"]
Format = Literal["text", "json"]
To = Annotated[Target | None, typer.Option("--to", help="Form of the converted program (default: ddp).")]
Select = Annotated[
    list[str] | None, typer.Option("--select", help="Only these rules (id or prefix).", autocompletion=rule_ids)
]
Ignore = Annotated[
    list[str] | None, typer.Option("--ignore", help="Not these rules (id or prefix).", autocompletion=rule_ids)
]
Unsafe = Annotated[
    bool | None, typer.Option("--unsafe", help="Also take fixes that change a hyper-parameter or a metric.")
]
Sampling = Annotated[
    Literal["auto", "distributed", "batch", "call"] | None,
    typer.Option("--sampling", help="How processes share a batch (default: auto).", show_default=False),
]
KeepPrefix = Annotated[
    bool | None,
    typer.Option("--keep-prefix", help='With --to accelerate: checkpoints keep the "module." in their keys.'),
]


def with_policies(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command a flag for each policy; it gets them together, as its argument `policies`."""
    signature = inspect.signature(command, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "policies"]
    added = [
        inspect.Parameter(
            policy.field,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                Optional[policy.kind],  # noqa: UP045 (the kind is a value here)
                typer.Option(
                    policy.flag, help=policy.help, show_default=False, rich_help_panel="Policies", **_bounds(policy)
                ),
            ],
        )
        for policy in POLICIES
    ]

    @functools.wraps(command)
    def run(**values: Any) -> Any:
        policies = {policy.field: values.pop(policy.field) for policy in POLICIES}
        return command(**values, policies=policies)

    run.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in (*own, *added)} | {"return": signature.return_annotation}
    return run


def _bounds(policy: Policy) -> dict[str, Any]:
    if policy.field == "master_port":
        return {"min": 1, "max": 65535}
    return {"min": LEAST[policy.field]} if policy.field in LEAST else {}


def options_of(flags: dict[str, Any], near: Path) -> Options:
    """The options that the flags and the nearest pyproject.toml give."""
    from migrator.policies import PolicyError, choose

    try:
        options = choose(flags, near)
    except PolicyError as error:
        fail(str(error), 2)
    known_rules([*options.select, *options.ignore])
    return options


def known_rules(values: list[str] | None) -> tuple[str, ...]:
    """Rule ids and prefixes; one that fits no rule is a mistake worth hearing of."""
    from codemods.registry import load_rules

    wanted = [part.strip().upper() for value in values or [] for part in value.split(",") if part.strip()]
    for prefix in wanted:
        if not any(rule.id.startswith(prefix) for rule in load_rules()):
            fail(f"no rule has the id or prefix {prefix}; `mgmigrate rules` lists them", 2)
    return tuple(wanted)


def read_options(flags: dict[str, Any], select: list[str] | None, ignore: list[str] | None, near: Path) -> Options:
    """The options that the flags of a command and the nearest pyproject.toml give."""
    options = options_of({**flags, "select": known_rules(select), "ignore": known_rules(ignore)}, near)
    if options.target != "accelerate" and options.keep_prefix:
        fail("--keep-prefix is for --to accelerate", 2)
    return options
