"""Which forms are measured and how they are started: presets, modules, folders of changed files, old programs."""

import io
from dataclasses import replace
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from benchmarks.forms import Form, Request, make_plans, root_of
from benchmarks.launch import Measuring, command_of, shown_command
from benchmarks.progress import Bars, Lines
from migrator.cli.app import app
from migrator.cli.bench_request import find_forms, find_program

from .machines import FOUR
from .test_engine import PROGRAM, run

MODULES = Path(__file__).parent.parent / "projects" / "programs" / "run_as_module"


@pytest.fixture
def program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def test_each_policy_makes_one_more_form_of_each_target(program):
    forms = find_forms(["ddp", "accelerate"], ["fast"], ["bf16"], True, program)
    assert [f.name for f in forms] == [
        *("ddp", "ddp:fast", "ddp:amp-bf16", "ddp:channels-last"),
        *("accelerate", "accelerate:fast", "accelerate:amp-bf16", "accelerate:channels-last"),
    ]
    fast, half, last = forms[1:4]
    assert (fast.options.batch, fast.options.amp, fast.options.channels_last) == ("per-gpu", "bf16", True)
    assert (half.options.batch, half.options.amp, half.options.channels_last) == ("global", "bf16", False)
    assert (last.options.amp, last.options.channels_last) == ("keep", True)
    assert half.title == "DistributedDataParallel --amp bf16"


def test_the_project_s_settings_hold_for_every_form(program):
    (program.parent / "pyproject.toml").write_text('[tool.mgmigrate]\nsampling = "call"\n')
    forms = find_forms(None, None, ["bf16"], False, program)
    assert [f.options.sampling for f in forms] == ["call", "call"]
    plans, _ = make_plans(Request(program, "", forms=forms))
    assert [p.whole_batches for p in plans] == [False, True, True]


@pytest.mark.parametrize("words", [["--to", "fsdp"], ["--preset", "slow"], ["--amp", "fp8"]])
def test_forms_that_are_none_are_a_mistake_in_one_line(program, words):
    done = CliRunner().invoke(app, ["bench", "train.py", "--gpus", "none", *words])
    assert done.exit_code == 2
    assert "there are" in done.stderr


def test_forms_with_policies_are_measured_in_turn_with_their_own_text(program, monkeypatch):
    forms = find_forms(None, ["fast"], None, False, program)
    report, starter = run(Request(program, "", forms=forms, rounds=1, measuring=Measuring(2, 3, 2)), monkeypatch)
    assert [v.name for v in report.variants] == ["single", "dp", "ddp", "ddp:fast"]
    assert report.variant("ddp:fast").policies == ("--preset fast",)
    assert "bfloat16" in starter.written["ddp:fast"]
    assert "bfloat16" not in starter.written["ddp"]


def test_accelerate_s_launcher_is_told_the_precision(program):
    form = find_forms(["accelerate"], None, ["bf16"], False, program)[1]
    plans, _ = make_plans(Request(program, "", forms=(form,), gpus=FOUR.gpus))
    words = command_of(plans[-1], Path("s.json"))
    assert words[words.index("--mixed_precision") + 1] == "bf16"
    assert "--mixed_precision bf16" in shown_command(plans[-1], [])


def test_a_module_is_found_in_its_folder_and_run_as_such(monkeypatch):
    monkeypatch.chdir(MODULES.parent)
    path, module, folder = find_program(MODULES, "speech.train")
    assert path == MODULES / "speech" / "train.py"
    request = Request(path, "", module=module, folder=folder)
    plans, _ = make_plans(request)
    assert root_of(request) == MODULES.parent
    assert [(p.module, p.path) for p in plans] == [("speech.train", "run_as_module")] * 2
    assert shown_command(plans[1], ["--x"]) == "torchrun --standalone --nproc_per_node=2 -m speech.train --x"


def test_a_file_that_imports_with_a_dot_is_run_as_a_module(monkeypatch):
    monkeypatch.chdir(MODULES)
    path, module, folder = find_program(Path("speech/train.py"), None)
    assert (module, folder) == ("speech.train", MODULES)
    assert root_of(Request(path, "", module=module, folder=folder)) == MODULES


def test_a_module_that_is_not_there_is_named(tmp_path):
    with pytest.raises(typer.Exit):
        find_program(tmp_path, "no.such")


def test_a_folder_of_changed_files_takes_their_places(program, tmp_path):
    after = tmp_path / "after"
    after.mkdir()
    (after / "train.py").write_text("# by hand\n")
    plans, _ = make_plans(Request(program, "", after=after))
    assert plans[-1].files == {"train.py": b"# by hand\n"}
    (after / "train.py").rename(after / "other.py")
    _, missing = make_plans(Request(program, "", after=after))
    assert "holds none of the program's files" in missing[-1].error


def test_an_original_that_today_s_torch_refuses_is_respelled_and_it_is_said(program):
    program.write_text(PROGRAM.replace("model(x), y)", "model(x.cuda(async=True)), y)"))
    plans, _ = make_plans(Request(program, ""))
    assert b"async=True" not in plans[0].files["train.py"]
    assert "run with only this respelled" in plans[0].note


def test_questions_that_are_left_for_a_person_are_in_the_notes(program, monkeypatch):
    program.write_text(PROGRAM + "torch.save(model, 'whole.pt')\n")
    forms = (Form("ddp"), Form("accelerate"))
    report, _ = run(Request(program, "", forms=forms, rounds=1, measuring=Measuring(2, 3, 2)), monkeypatch)
    note = report.notes[0]
    assert note.startswith("accelerate: the conversion leaves questions for a person, and was run as it is")
    assert f"{program}:18" in note


def test_the_single_form_is_one_plain_process(program):
    plans, _ = make_plans(replace(Request(program, ""), forms=(Form("accelerate"),)))
    assert plans[0].launcher == "python"
    assert plans[1].environment == {"ACCELERATE_USE_CPU": "true"}


# -------------------------------------------------------------------- progress
def test_bars_on_a_terminal_count_runs_and_steps():
    from rich.console import Console

    said = io.StringIO()
    with Bars(Console(file=said, force_terminal=True, width=100)) as bars:
        bars.begins("round 1, one device", 1, 4, 20)
        bars.steps(0)
        bars.bars.refresh()
        bars.steps(7)
        bars.bars.refresh()
        bars.begins("round 1, DataParallel", 2, 4, 20)
        bars.begins("accelerate, 512 samples per device", 0, 0, 12)
        bars.bars.refresh()
    text = said.getvalue()
    for part in ("one device: starting", "7/20", "0/4", "looking for the largest batch", "512 samples per device"):
        assert part in text


def test_elsewhere_there_is_a_line_for_each_start():
    said = []
    lines = Lines(said.append)
    lines.begins("round 1, one device", 1, 4, 20)
    lines.steps(3)
    lines.begins("DataParallel, 64 samples per device", 0, 0, 12)
    assert said == ["[1/4] round 1, one device\n", "[largest batch] DataParallel, 64 samples per device\n"]


def test_a_reference_trainer_has_samples_enough_where_each_device_takes_a_whole_batch(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("migrator.cli.bench._bench", lambda request, *_: asked.append(request))
    monkeypatch.chdir(tmp_path)
    words = ["bench", "--reference", "small", "--gpus", "none", "--processes", "4"]
    for more in ([], ["--preset", "fast"]):
        assert CliRunner().invoke(app, [*words, *more]).exit_code == 0
    plain, fast = (int(r.arguments[r.arguments.index("--synthetic-samples") + 1]) for r in asked)
    total = asked[0].measuring.total
    assert plain >= total * 32
    assert fast >= total * 32 * 4
