"""Fixes are accepted and refused one by one: what goes with a refused one, and what is said of it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from codemods.base import INVARIANTS
from codemods.options import Options
from codemods.registry import load_rules
from migrator.convert.conversion import JOINS, WRAPS
from migrator.convert.data_parallel import convert_project
from migrator.convert.pipeline import convert_program
from migrator.convert.selection import (
    Selection,
    SelectionError,
    chosen_ids,
    fix_ids,
    load_selection,
    refusals,
    save_selection,
    selected,
)
from migrator.facts.program import Program
from migrator.load.project import load_project

from .conftest import PROGRAM

PROGRAMS = Path(__file__).resolve().parents[1] / "hazards" / "programs"
# Without these nothing is lost but time, memory of the GPU, or a warning less.
HARMLESS = {"MG004", "MG007", "MG010", "MG107", "MG309", "MG322", "MG411"}
TWO_FOLDERS = PROGRAM.replace(
    "    loader = DataLoader(data, batch_size=16, shuffle=True)\n",
    '    os.makedirs("a"); os.makedirs("b")\n    loader = DataLoader(data, batch_size=16, shuffle=True)\n',
).replace("import argparse\n", "import argparse\nimport os\n")
TWO_MODELS = PROGRAM.replace(
    "    model = nn.DataParallel(nn.Linear(4, 2))\n",
    "    body = nn.Linear(4, 4)\n    model = nn.Linear(4, 2)\n    if torch.cuda.device_count() > 1:\n"
    "        body = nn.DataParallel(body)\n        model = nn.DataParallel(model)\n",
).replace("model(inputs)", "model(body(inputs))")
HELPER = "def save(model):\n    import torch\n\n    torch.save(model.state_dict(), 'model.pt')\n"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def convert(path, *refused, **options):
    return convert_program(Path(path), Options(**options), choose=selected(lambda _: refused))


def ids(path, **options):
    return fix_ids(convert_program(Path(path), Options(**options)))


def told(conversion, level):
    return {d.rule: d.message for d in conversion.diagnostics if d.level == level}


# ---------------------------------------------------------------- ids
def test_an_id_names_rule_file_and_line_from_wherever_the_program_is_converted(train, monkeypatch, tmp_path):
    here = list(ids("train.py"))
    assert "MG501@train.py:23" in here
    monkeypatch.chdir(tmp_path.parent)
    assert list(ids(Path(tmp_path.name) / "train.py")) == here
    assert list(ids(train.resolve())) == here


def test_two_fixes_of_one_rule_on_a_line_have_two_ids(train):
    train.write_text(TWO_FOLDERS)
    assert {"MG502@train.py:14", "MG502@train.py:14#2"} <= set(ids("train.py"))


def test_a_fix_in_another_file_is_named_from_the_entry(train, tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "saving.py").write_text(HELPER)
    train.write_text(
        PROGRAM.replace("import torch\n", "import torch\nfrom lib.saving import save\n", 1).replace(
            'torch.save(model.state_dict(), "model.pt")', "save(model)"
        )
    )
    assert "MG501@lib/saving.py:4" in ids("train.py")


# ---------------------------------------------------------------- what goes with what
def test_a_refused_fix_is_left_out_and_its_promise_is_named(train):
    conversion = convert("train.py", "MG501@train.py:23")
    assert "get_rank() == 0:\n" not in conversion.changes[0].after
    assert "wrap_model(" in conversion.changes[0].after
    message = told(conversion, "question")["MG501"]
    assert message.startswith("left out, as you chose: ")
    assert "promise 4, once" in message
    assert conversion.exit_code == 3


@pytest.mark.parametrize("refused", ["MG301@train.py:14", "MG101@train.py:27", "MG101@train.py:27#2"])
def test_without_join_or_wrap_the_program_stays_one_process(train, refused):
    conversion = convert("train.py", refused)
    assert not conversion.changes
    assert not conversion.questions
    others = told(conversion, "note")
    assert {"MG101", "MG201", "MG202", "MG203", "MG301", "MG501"} <= set(others)
    assert all("left out" in message for rule, message in others.items() if "samples does not divide" not in message)
    assert conversion.launch == "python train.py"


def test_what_builds_on_a_refused_fix_goes_with_it_and_says_so(train):
    conversion = convert("train.py", "MG201@train.py:13")
    text = conversion.changes[0].after
    assert "set_epoch" not in text
    assert "vary_seed" not in text
    assert "wrap_model(" in text
    assert "left out with MG201@train.py:13 (it builds on shard-loader)" in told(conversion, "note")["MG202"]
    assert "promise 1, trajectory" in told(conversion, "question")["MG201"]


def test_one_of_two_models_that_stays_is_a_broken_promise(train):
    train.write_text(TWO_MODELS)
    conversion = convert(
        "train.py", "MG302@train.py:18" if "MG302@train.py:18" in ids("train.py") else "MG301@train.py:18"
    )
    message = next(d.message for d in conversion.questions)
    assert "promise 5, memory" in message
    assert "promise 1, trajectory" in message


def test_a_fix_inside_an_if_that_a_refused_one_takes_away_goes_with_it(train):
    train.write_text(TWO_MODELS)
    conversion = convert("train.py", next(name for name in ids("train.py") if name.endswith("train.py:17")))
    assert not conversion.changes  # the second wrap would stand behind the flag


def test_fixes_for_todays_torch_need_no_processes(train):
    train.write_text(PROGRAM.replace("model(inputs)", "model(inputs.cuda(async=True))"))
    conversion = convert("train.py", *(name for name in ids("train.py") if not name.startswith("MG001")))
    assert {d.rule for d in conversion.diagnostics if d.fix} == {"MG001"}
    assert "DistributedDataParallel" not in conversion.changes[0].after
    assert "non_blocking=True" in conversion.changes[0].after


def test_mixed_precision_is_one_change(train):
    scaled = [name for name in ids("train.py", amp="fp16") if name.startswith("MG402")]
    assert len(scaled) > 2
    conversion = convert("train.py", scaled[1], amp="fp16")
    assert "scaler" not in conversion.changes[0].after
    assert "autocast" not in conversion.changes[0].after


def test_a_shared_evaluation_that_is_refused_loses_time_only(train):
    train.write_text((PROGRAMS / "h09_validation_counts_once.py").read_text())
    shares = [name for name in ids("train.py") if name.startswith("MG702")]
    assert shares
    assert not convert("train.py", *shares).questions


def test_every_rule_says_what_is_lost_without_its_fix():
    fixing = [rule for rule in load_rules() if rule.applicability != "display-only"]
    known = {rule.id for rule in fixing}
    assert {rule.id for rule in fixing if not rule.keeps} == HARMLESS
    assert all(name in INVARIANTS for rule in fixing for name in rule.keeps)
    assert all(other in known for rule in fixing for other in rule.needs)
    assert known >= JOINS | WRAPS


def check_each_refusal(path: Path, target: str, out: Path) -> int:
    """Refuse each fix alone: what is left runs as far as its names go, and what is lost is said."""
    program, options = Program(load_project(path)), Options(target=target)
    whole = convert_project(path, program, options)
    fixes = fix_ids(whole)
    for number, name in enumerate(fixes):
        conversion = convert_project(path, program, options, selected(lambda _, name=name: [name]))
        left = refusals(fixes, [name])
        assert {d.rule for d in conversion.diagnostics if d.fix} == {
            d.rule for other, d in fixes.items() if other not in left
        }
        lost = left[name].breaks
        assert all(any(f", {one} (" in d.message for d in conversion.questions) for one in lost), name
        if any(d.fix and d.rule in JOINS for d in conversion.diagnostics):
            rule = fixes[name].rule
            assert lost or rule in HARMLESS or fixes[name].fix.optional, name
        for change in conversion.changes:
            text = change.after.replace("async=", "asinc=")  # which today's Python reads
            compile(text, change.path, "exec")
            (out / f"{path.stem}_{target}_{number}_{Path(change.path).stem}.py").write_text(text)
    return len(fixes)


def check_names(folder: Path) -> None:
    """No program in the folder uses a name that nothing gives it."""
    words = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821", "--output-format", "concise", "."]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout


FEW = ("h09_validation_counts_once", "h23_*", "h33_*")


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
def test_whichever_fix_is_refused_the_rest_fits_together(tmp_path, target):
    few = [path for pattern in FEW for path in sorted(PROGRAMS.glob(f"{pattern}.py"))[:1]]
    assert len(few) == len(FEW)
    assert sum(check_each_refusal(path, target, tmp_path) for path in few) > 15
    check_names(tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))  # by and by, so that several workers can share them
@pytest.mark.parametrize("target", ["ddp", "accelerate"])
def test_whichever_fix_of_any_hazard_is_refused_the_rest_fits_together(tmp_path, target, part):
    assert sum(check_each_refusal(path, target, tmp_path) for path in sorted(PROGRAMS.glob("h*.py"))[part::5]) > 100
    check_names(tmp_path)


# ---------------------------------------------------------------- selections
def test_a_selection_survives_its_file(tmp_path):
    selection = Selection("train.py", ("MG101@train.py:27",), ("MG501@train.py:23",))
    save_selection(tmp_path / "s.json", selection)
    assert load_selection(tmp_path / "s.json") == selection


def test_a_list_that_is_left_out_stands_for_all_others(train):
    conversion = convert_program(Path("train.py"), Options())
    every = set(fix_ids(conversion))
    assert chosen_ids(conversion, Selection("train.py", None, ("MG501@train.py:23",))) == {"MG501@train.py:23"}
    assert chosen_ids(conversion, Selection("x/train.py", ("MG501@train.py:23",), None)) == every - {
        "MG501@train.py:23"
    }


@pytest.mark.parametrize(
    ("accept", "refuse", "said"),
    [
        (None, ("MG501@train.py:24",), "did you mean MG501@train.py:23"),
        (None, ("nonsense",), "`mgmigrate convert --format json` lists the ids"),
        (("MG501@train.py:23",), ("MG501@train.py:23",), "both accepted and refused"),
        (("MG501@train.py:23",), (), "is neither accepted nor refused (6 in all)"),
    ],
)
def test_a_selection_that_does_not_fit_is_an_error_with_a_hint(train, accept, refuse, said):
    conversion = convert_program(Path("train.py"), Options())
    with pytest.raises(SelectionError) as stop:
        chosen_ids(conversion, Selection("train.py", accept, refuse))
    assert said in str(stop.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "holds no object"),
        ('{"version": 2}', "has version 2; this mgmigrate reads 1"),
        ('{"version": 1, "refuse": []}', "does not say for which entry"),
        ('{"version": 1, "entry": "train.py"}', "neither accepts nor refuses"),
        ('{"version": 1, "entry": "train.py", "refuse": "MG501"}', "refuse is not a list"),
        ('{"version": 1, "entry": "train.py", "reject": []}', "has a field reject"),
    ],
)
def test_a_file_that_is_no_selection_is_an_error_that_names_it(cli, train, tmp_path, text, said):
    (tmp_path / "s.json").write_text(text)
    done = cli("convert", "train.py", "--apply", "s.json")
    assert done.code == 2
    assert done.stderr.startswith("mgmigrate: s.json: ")
    assert said in done.stderr


def test_apply_converts_what_the_file_accepts_and_writes_it(cli, train, tmp_path):
    (tmp_path / "s.json").write_text(json.dumps({"version": 1, "entry": "train.py", "refuse": ["MG501@train.py:23"]}))
    done = cli("convert", "train.py", "--apply", "s.json", "--write")
    assert done.code == 3
    assert "left out, as you chose" in done.stderr
    assert "wrap_model(" in train.read_text()
    assert "get_rank() == 0:\n" not in train.read_text()


def test_apply_is_for_one_program(cli, train, tmp_path):
    (tmp_path / "two.py").write_text(PROGRAM)
    (tmp_path / "s.json").write_text('{"version": 1, "entry": "train.py", "refuse": []}')
    done = cli("convert", "train.py", "two.py", "--apply", "s.json")
    assert (done.code, "--apply is for one program" in done.stderr) == (2, True)
    done = cli("convert", "two.py", "--apply", "s.json")
    assert (done.code, "the selection is for train.py, not for two.py" in done.stderr) == (2, True)


def test_json_names_the_fixes(cli, train):
    document = json.loads(cli("convert", "train.py", "--format", "json").stdout)
    named = [d["id"] for d in document["programs"][0]["diagnostics"] if d["level"] == "fix"]
    assert named == list(ids("train.py"))
