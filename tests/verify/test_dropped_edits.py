"""Each fix of a converted program is left out in turn: the check finds it, or the table says why it does not matter.

The faults are made by the converter's own list of fixes, not thought up; a fix that is new, or gone, needs its line here.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from codemods.base import Diagnostic
from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.convert.selection import fix_ids
from migrator.verify import ForkServer, Status, Verdict, VerifyRequest, to_text, verify

from .planted import FAULTS

FOLDER = Path(__file__).parent / "dropped"
TO_THE_END = 60  # steps: more than the programs take, so that what they do at their end is compared too

# What makes no difference for a sound reason, and the words of the note that says so (empty: numbers and files are the same).
LEAVING = ("leaving the process group only spares a warning, the processes end all the same", "")
RACE = ("two ranks that make a folder at once rarely meet; the fix is for when they do", "")
SHARE = ("the training loss on the screen is rank 0's share", "rank 0's share")
ALL = ("every rank evaluates everything: the same metric, for more work", "every rank evaluates everything")
DROPOUT = ("the masks of dropout are equal on all ranks, as on DataParallel's devices of one seed", "inside the model")
WRAPPED = ("a wrapped model has `.module`; the fix is for one process, where accelerate does not wrap", "")
KEYS = ("with several processes the keys are the original's; the fix makes one process write the same", "")
MOVED = ("a batch that is on its device already is moved to it once more", "")
PLACED = ("a model that is on its device is moved to it once more by prepare", "")
LOUD = ("every rank prints", "rank 1 prints the program's lines too")
PLAIN = ("without scaling or accumulation accelerator.backward(loss) is loss.backward()", "")

Expected = str | tuple[str, str]  # the kind of the first finding, or why there is none

TABLE: dict[tuple[str, str], dict[str, Expected]] = {
    ("distributed", "ddp"): {
        "MG702@train.py:42": SHARE,
        "MG702@train.py:57": ALL,
        "MG502@train.py:70": RACE,
        "MG201@train.py:71": "error",
        "MG301@train.py:75": "data",
        "MG503@train.py:80": "files",
        "MG203@train.py:81": "random",
        "MG202@train.py:82": "data",
        "MG501@train.py:90": "files",
        "MG501@train.py:91": "files",
        "MG101@train.py:95": "error",
        "MG101@train.py:95#2": LEAVING,
    },
    ("distributed", "accelerate"): {
        "MG702@train.py:42": SHARE,
        "MG319@train.py:43": MOVED,
        "MG411@train.py:46": PLAIN,
        "MG702@train.py:57": ALL,
        "MG502@train.py:70": RACE,
        "MG319@train.py:73": PLACED,
        "MG305@train.py:75": "loss",
        "MG305@train.py:78": "wrap",
        "MG503@train.py:80": "files",
        "MG203@train.py:81": "random",
        "MG514@train.py:85": LOUD,
        "MG501@train.py:90": "files",
        "MG611@train.py:90": KEYS,
        "MG306@train.py:91": WRAPPED,
        "MG501@train.py:91": "files",
        "MG104@train.py:95": "error",
        "MG104@train.py:95#2": LEAVING,
    },
    ("batch", "ddp"): {
        "MG101@train.py:7": "error",
        "MG204@train.py:12": "data",
        "MG301@train.py:14": "data",
        "MG203@train.py:17": DROPOUT,
        "MG101@train.py:24": LEAVING,
        "MG501@train.py:24": "files",
    },
    ("call", "ddp"): {
        "MG302@train.py:18": "data",
        "MG501@train.py:29": "files",
        "MG101@train.py:33": "data",
        "MG101@train.py:33#2": LEAVING,
    },
}
WAYS = {"distributed": "distributed", "batch": "batch", "call": "call"}
CASES = [(program, target, name) for (program, target), rows in TABLE.items() for name in rows]
SHORT = {"MG202@train.py:82", "MG204@train.py:12", "MG203@train.py:17", "MG302@train.py:18"}  # of the default run


def without(name: str) -> Callable[[Conversion], dict[Diagnostic, Diagnostic]]:
    """Leaves out one fix, and nothing that depends on it."""

    def choose(conversion: Conversion) -> dict[Diagnostic, Diagnostic]:
        found = fix_ids(conversion)[name]
        return {found: replace(found, fix=None, level="note")}

    return choose


def project(program: str, folder: Path) -> Path:
    folder.mkdir()
    return Path(shutil.copy(FOLDER / f"{program}.py", folder / "train.py"))


def checked(server: ForkServer, entry: Path, conversion: Conversion) -> Verdict:
    after = entry.parent.with_name("converted")
    shutil.copytree(entry.parent, after)
    for change in conversion.changes:
        (after / Path(change.path).name).write_text(change.after)
    request = VerifyRequest(entry, after, devices=2, steps=TO_THE_END, cwd=entry.parent, timeout=120.0, patience=6.0)
    return verify(request, server)


@pytest.mark.parametrize(("program", "target"), TABLE, ids=["-".join(key) for key in TABLE])
def test_every_fix_has_its_line_in_the_table(tmp_path: Path, program: str, target: str) -> None:
    conversion = convert_program(project(program, tmp_path / "project"), Options(target=target))
    assert conversion.way == WAYS[program]
    assert set(fix_ids(conversion)) == set(TABLE[program, target])


def test_a_quarter_as_many_fixes_are_left_out_as_faults_are_planted() -> None:
    found = [e for rows in TABLE.values() for e in rows.values() if isinstance(e, str)]
    assert len(CASES) >= len(FAULTS) / 4
    assert len(found) >= len(CASES) / 2


@pytest.mark.long
@pytest.mark.parametrize(("program", "target"), TABLE, ids=["-".join(key) for key in TABLE])
def test_with_all_its_fixes_the_program_is_equal(server: ForkServer, tmp_path: Path, program: str, target: str) -> None:
    entry = project(program, tmp_path / "project")
    verdict = checked(server, entry, convert_program(entry, Options(target=target)))
    assert verdict.status is Status.EQUAL, to_text(verdict)


@pytest.mark.parametrize(
    ("program", "target", "name"),
    [pytest.param(*case, id="-".join(case), marks=() if case[2] in SHORT else pytest.mark.long) for case in CASES],
)
def test_a_left_out_fix_is_found_or_does_not_matter(
    server: ForkServer, tmp_path: Path, program: str, target: str, name: str
) -> None:
    entry, expected = project(program, tmp_path / "project"), TABLE[program, target][name]
    whole = convert_program(entry, Options(target=target))
    conversion = convert_program(entry, Options(target=target), choose=without(name))
    assert [c.after for c in conversion.changes] != [c.after for c in whole.changes], "an idle fix changes nothing"
    verdict = checked(server, entry, conversion)
    if isinstance(expected, str):
        assert (verdict.status, verdict.cause) == (Status.DIFFERENT, expected), to_text(verdict)
    else:
        assert verdict.status is Status.EQUAL, to_text(verdict)
        assert expected[1] in " ".join(verdict.notes), to_text(verdict)
