"""Calls that only tell the user something."""

from __future__ import annotations

import ast
import re

from migrator.facts.python.nodes import dotted


def is_announcement(call: ast.Call) -> bool:
    """True for a call that prints, or writes to a log."""
    name = dotted(call.func) or ""
    return name == "print" or bool(
        re.search(r"(^|\.)(log|logger|logging|info|warning|warn|debug|write|print_\w*|print)$", name)
    )
