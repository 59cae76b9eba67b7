"""What a report is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.load.source import SourceError

if TYPE_CHECKING:
    from migrator.review.verdict import Verdict


@dataclass(frozen=True, slots=True)
class Report:
    """The converted programs, what could not be read, the options, and a verdict of `verify` where there is one."""

    conversions: Sequence[Conversion]
    errors: Sequence[SourceError]
    options: Options
    verdict: Verdict | None = None
