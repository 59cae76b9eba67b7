"""The rules: one file each, one obligation of data-parallel training each, by family (`codemods.registry` loads them)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codemods.runner import ConvertToAccelerate, ConvertToDDP

__all__ = ["ConvertToAccelerate", "ConvertToDDP"]


def __getattr__(name: str) -> type[ConvertToDDP]:
    """`codemods.ConvertToDDP`, imported when a codemod runner asks for it (libcst.codemod doubles the start-up time)."""
    if name in ("ConvertToAccelerate", "ConvertToDDP"):
        from codemods import runner

        found: type[ConvertToDDP] = getattr(runner, name)
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
