"""The closed set of edits that a fix is made of.

Edits are data: they carry the place that they are about and text to put there, never tree nodes, so that a plan can be
pickled, printed and compared.  `migrator.rewrite.apply` is the only reader that turns them into syntax.

Text of a `Replace` or an `InsertBefore` may hold `$0`, `$1`, …: holes for sub-expressions of the replaced place, which keep the edits made
inside them.  Text of statements is dedented Python; it takes the indentation of its new place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from migrator.facts.python.syntax import Span


@dataclass(frozen=True, slots=True)
class Replace:
    """Replace an expression; `holes[i]` is what `$i` in the text stands for."""

    at: Span
    text: str
    holes: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class SetArgument:
    """Give a call's argument a new value, in place; append it as a keyword when the call does not have it.

    `position` is the positional index that means the same argument, where there is one; with `rename` the keyword
    changes its name too, in place.
    """

    at: Span
    name: str
    text: str
    position: int | None = None
    holes: tuple[Span, ...] = ()
    rename: str = ""


@dataclass(frozen=True, slots=True)
class DropArgument:
    """Remove a call's argument, by keyword or by position."""

    at: Span
    name: str
    position: int | None = None


@dataclass(frozen=True, slots=True)
class InsertBefore:
    """Put statements before a statement; with `first`, also before what others put there, with `last` behind it.

    `holes` are expressions of that statement that move into the text, as they are without their own replacement.
    """

    at: Span
    text: str
    first: bool = False
    holes: tuple[Span, ...] = ()
    last: bool = False


@dataclass(frozen=True, slots=True)
class InsertAfter:
    """Put statements after a statement."""

    at: Span
    text: str


@dataclass(frozen=True, slots=True)
class Remove:
    """Remove a statement; a comment above it goes too where nothing else is left of their paragraph."""

    at: Span


@dataclass(frozen=True, slots=True)
class Guard:
    """Put consecutive statements of one block under `if <test>:`, or under `with <test>:`."""

    at: Span
    statements: tuple[Span, ...]
    test: str
    keyword: Literal["if", "with"] = "if"


@dataclass(frozen=True, slots=True)
class Inline:
    """Replace an `if` by the statements of one of its branches (`orelse` True: the else branch)."""

    at: Span
    orelse: bool = False


@dataclass(frozen=True, slots=True)
class AddParameter:
    """Give a function one more parameter, which callers pass by name; `at` is the head of its definition."""

    at: Span
    name: str


@dataclass(frozen=True, slots=True)
class AddImport:
    """Make sure that a module has an import; `at` is any place in that module."""

    at: Span
    text: str


@dataclass(frozen=True, slots=True)
class ReplaceText:
    """Replace text of a file that is no Python."""

    at: Span
    text: str


@dataclass(frozen=True, slots=True)
class AddHelper:
    """Make sure that a helper of `codemods.templates` can be called from the module of `at`."""

    at: Span
    name: str


Edit = (
    Replace
    | SetArgument
    | DropArgument
    | InsertBefore
    | InsertAfter
    | Remove
    | Guard
    | Inline
    | AddParameter
    | AddImport
    | AddHelper
    | ReplaceText
)
STATEMENT_EDITS = (InsertBefore, InsertAfter, Remove, Guard, Inline, AddParameter)


# Rule id, reason, and the place of the diagnostic: together they say which fix changed a line.
Label = tuple[str, str, Span | None]


@dataclass(frozen=True, slots=True)
class Labelled:
    """An edit with the rule that asks for it, the reason that the reviewer reads, and the place of the diagnostic behind it."""

    edit: Edit
    rule: str
    reason: str
    of: Span | None = None

    @property
    def label(self) -> Label:
        """What a changed line is labelled with."""
        return self.rule, self.reason, self.of
