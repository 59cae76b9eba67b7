"""Planted faults are never called EQUAL and their cause comes first; changes that are none raise no alarm."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator.verify import Status, Verdict, to_text

from .planted import CONTROLS, FAULTS, Control, Fault
from .programs import SPLIT_TEMPLATE, edited, pair


def files(name: str) -> dict[str, str]:
    return {"split_data_parallel.py": SPLIT_TEMPLATE.read_text()} if name == "split" else {}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda f: f.name)
def test_a_fault_is_found_and_its_cause_named(check: Callable[..., Verdict], fault: Fault) -> None:
    before, after = pair(fault.pair)
    verdict = check(edited(before, *fault.before), edited(after, *fault.after), files(fault.pair))
    text = to_text(verdict)
    assert verdict.status is Status.DIFFERENT, text
    kinds = (fault.kind,) if isinstance(fault.kind, str) else fault.kind
    assert verdict.cause in kinds, text
    first = verdict.findings[0]
    assert fault.says in f"{first.text} {first.hint}", text


@pytest.mark.parametrize("control", CONTROLS, ids=lambda c: c.name)
def test_no_false_alarm(check: Callable[..., Verdict], control: Control) -> None:
    before, after = pair(control.pair)
    verdict = check(edited(before, *control.before), edited(after, *control.after), files(control.pair))
    text = to_text(verdict)
    assert verdict.status is Status.EQUAL, text
    assert control.notes in " ".join(verdict.notes), text


def test_there_are_enough_of_both() -> None:
    assert len(FAULTS) >= 25 and len(CONTROLS) >= 8
    assert len({fault.name for fault in FAULTS}) == len(FAULTS)
