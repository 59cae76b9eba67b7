"""The commands `rules` and `explain`: what the rules are about."""

from __future__ import annotations

from typing import Annotated

import typer

from migrator.cli.console import fail, put
from migrator.cli.options import rule_ids


def rules() -> None:
    """List the rules."""
    from codemods.registry import load_rules

    for rule in load_rules():
        put(f"{rule.id}  {rule.name:<20} {rule.applicability:<12} {rule.summary}\n")


def explain(rule_id: Annotated[str, typer.Argument(metavar="ID", autocompletion=rule_ids)]) -> None:
    """Say what a rule is about and why."""
    from codemods.registry import load_rules

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
    fail(f"there is no rule {rule_id}; `mgmigrate rules` lists them", 2)
