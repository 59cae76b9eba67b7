"""Commands that hand what stands behind `--` on to a script."""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand


class WithScriptArguments(TyperCommand):
    """What stands behind `--` is the script's."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if "--" in args:
            cut = args.index("--")
            ctx.meta["script"] = args[cut + 1 :]
            args = args[:cut]
        return super().parse_args(ctx, args)
