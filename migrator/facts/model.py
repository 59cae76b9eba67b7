"""The facts that rules read: frozen records, each with the place that it is about.

Facts never hold tree nodes; a rule that needs more than its fact asks the `Program`.
"""

from __future__ import annotations

from dataclasses import dataclass

from migrator.facts.python.syntax import Span


@dataclass(frozen=True, slots=True)
class GuardFact:
    """An `if` around a wrap.  `parallel` says that the test asks for several devices; `exclusive` that the other branch
    only places the model, so that the wrap's branch can stand alone; `orelse` that the wrap is in the else branch;
    `wraps_elsewhere` that the other branch wraps too; `leaves` that the wrap's branch ends the program or function;
    `is_entry` that this is the `__main__` guard; `alone` that the `if` holds nothing but the wrap."""

    at: Span
    test: str
    parallel: bool
    exclusive: bool
    orelse: bool
    wraps_elsewhere: bool
    leaves: bool
    is_entry: bool
    alone: bool
    lines: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Wrap:
    """A live `DataParallel` call.

    `outer` includes chained moves such as `.cuda()`; `inner` is the wrapped module's expression; `target` is what the
    statement assigns to; kind is class, functional or subclass.
    """

    at: Span
    outer: Span
    statement: Span
    inner: Span
    inner_text: str
    target: str
    kind: str
    name: str
    dim: str | None
    guards: tuple[GuardFact, ...]
    conditional: Span | None
    submodule: bool
    scope: str
    in_class: bool


@dataclass(frozen=True, slots=True)
class PartWrap:
    """A wrap of only a part of a model: `model.features = nn.DataParallel(model.features)`.

    `at` is the call, `target` what its statement assigns to, `whole` the text `model`, `part` the name `features`.  `against` says why
    the whole model cannot be wrapped in its place, empty where it can; `draws` is a dropout beside the part.  `instead` is an `if` that
    only chooses between the part and the whole, which it wraps in its else branch where `orelse` holds.
    """

    at: Span
    statement: Span
    target: Span
    whole: str
    part: str
    against: str
    draws: str = ""
    instead: Span | None = None
    orelse: bool = False


@dataclass(frozen=True, slots=True)
class LookAlike:
    """A class of the project itself, or of a library, that is called like DataParallel but is not torch's."""

    at: Span
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """Where the program starts: `first` is the statement before which the processes must have met.

    `last` is the statement after which nothing more happens; `kind` is guard, flat, library, or early: `first` stands above
    the main guard, and is also run by those who import the file.
    """

    kind: str
    first: Span | None
    last: Span | None


@dataclass(frozen=True, slots=True)
class Effect:
    """A statement or call with an effect outside the process.

    kind: write (a one-shot write), folder, sink (an object that keeps writing), remove, shell, prompt, download.
    """

    kind: str
    name: str
    at: Span
    statement: Span
    path: Span | None
    path_text: str
    scope: str


@dataclass(frozen=True, slots=True)
class Clock:
    """A value that differs between processes (time, pid, random id); `into` is name, seed, condition or log."""

    at: Span
    statement: Span
    text: str
    into: str


@dataclass(frozen=True, slots=True)
class DeviceLiteral:
    """A fixed or chosen GPU index: kind is string, cuda_call, device_call, set_device or visible."""

    kind: str
    at: Span
    statement: Span
    text: str


@dataclass(frozen=True, slots=True)
class Place:
    """A call or expression that a rule is about, with its statement and a note of what was seen."""

    at: Span
    statement: Span
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Region:
    """The first and the last statement of a notebook that every process runs.

    `choices` stand above the first and go with it: they choose a device, which matters to nothing in between.  `shown` are
    statements that do not go along, because they show something in the notebook; `left` those of them, and behind the last,
    that show what is made in the region: the place of each, and a name that it reads.
    """

    first: Span
    last: Span
    choices: tuple[Span, ...]
    shown: tuple[Span, ...]
    left: tuple[tuple[Span, str], ...]
    definitions: tuple[Span, ...]

    def is_defined(self, at: Span) -> bool:
        """True for a place in a function or class of the notebook."""
        return any(one.contains(at) for one in self.definitions)
