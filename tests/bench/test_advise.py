"""Which form fits: decisions, arithmetic, thresholds and sources."""

import ast
import json
import textwrap

import pytest
from typer.testing import CliRunner

from benchmarks.results import dump
from migrator.cli.app import app
from migrator.machines import estimates
from migrator.machines.advise import advise, parse_count
from migrator.machines.advise_program import read_program
from migrator.machines.advise_reading import Reading, read_trees
from migrator.machines.advise_show import sources, to_json, to_text
from migrator.machines.estimates import KNOWN_MODELS, Setting, bounds, calibrated, count_bytes

from .machines import FOUR as FOUR_CARDS
from .machines import NONE, UNEQUAL
from .reports import FOUR

GB = 10**9


def advised(count: str = "", gpus: int = 4, nodes: int = 1, memory: int = 80, reading: Reading | None = None, **more):
    reading = reading or Reading()
    setting = Setting(parse_count(count), gpus, nodes, memory * GB, **more) if count else None
    return advise(reading, setting, gpus, nodes)


def read(text: str) -> Reading:
    return read_trees([("train.py", ast.parse(textwrap.dedent(text)), {})])


@pytest.mark.parametrize(
    "count, gpus, nodes, memory, form",
    [
        ("25M", 1, 1, 80, "stay"),
        ("25M", 4, 1, 80, "ddp"),
        ("340M", 2, 1, 24, "ddp"),
        ("1.3B", 4, 2, 80, "ddp"),
        ("7B", 4, 2, 80, "fsdp"),
        ("7B", 2, 1, 24, "model-parallel"),
        ("", 4, 1, 0, "ddp"),
        ("", 0, 1, 0, "stay"),
    ],
)
def test_the_form_follows_from_bytes_cards_and_machines(count, gpus, nodes, memory, form):
    assert advised(count, gpus, nodes, memory).form == form


def test_two_unequal_cards_are_judged_by_the_smaller():
    assert advised("1B", 2, memory=24).form == "fsdp"
    assert advised("1B", 2, memory=80).form == "ddp"


def test_parts_on_several_devices_are_model_parallel():
    reading = read("""
        class Net(nn.Module):
            def __init__(self):
                self.a = nn.Linear(1, 1).to("cuda:0")
                self.b = nn.Linear(1, 1).cuda(1)
    """)
    advice = advised("25M", reading=reading)
    assert (advice.form, advice.runner_up) == ("model-parallel", "fsdp")
    assert "train.py:4" in advice.reasons[0]


def test_branches_on_inputs_need_unused_parameters_and_no_rpc():
    reading = read("""
        class Net(nn.Module):
            def forward(self, x, mask=None):
                if mask is not None:
                    x = self.c(x)
                if x.mean() > 0:
                    return self.a(x)
                return self.b(x)
    """)
    assert reading.branches == ("train.py:6",)
    advice = advised("25M", reading=reading)
    assert advice.form == "ddp"
    assert any("find_unused_parameters" in reason for reason in advice.reasons)


def test_frameworks_decide_before_bytes():
    assert advised("25M", reading=Reading(frameworks=(("accelerate", "a.py"),))).form == "accelerate"
    assert advised("25M", reading=Reading(frameworks=(("fsdp", "a.py"),))).form == "stay"
    trainer = advised("25M", reading=Reading(frameworks=(("transformers.Trainer", "a.py"),)))
    assert any("drop the wrap" in reason for reason in trainer.reasons)
    assert advised("25M", reading=Reading(trains=False)).form == "stay"


def test_the_arithmetic_of_bytes():
    size = count_bytes(Setting(100, gpus=4, batch=8, output_bytes=1000))
    assert (size.parameters, size.gradients, size.optimizer, size.states) == (400, 400, 800, 1600)
    assert size.main_excess == 400 + 800 + 8000  # gradients, moments, gathered outputs
    assert size.dp_moved == 2 * 3 * 400
    assert size.ddp_moved == 2 * 3 * 400 // 4
    assert size.ddp_each == 2000
    assert size.fsdp_each == 400
    assert count_bytes(Setting(100, gpus=4)).dp_gather is None
    assert count_bytes(Setting(100, gpus=4, optimizer="sgd")).optimizer == 0


def test_ranges_are_ranges_and_say_what_they_assume():
    for setting in (Setting(10**8, 4), Setting(10**8, 4, 2), Setting(10**8, 2)):
        for bound in bounds(setting, "pcie"):
            assert 0 < bound.low < bound.high
            assert bound.assumptions
    assert bounds(Setting(10**8, 1), "pcie") == []


def test_thresholds_of_the_articles_are_cited_and_judged():
    small = "\n".join(advised("25M").thresholds)
    assert "500 M" in small
    assert "4 cards" in small
    assert "No longer" in small
    large = "\n".join(advised("1.3B", nodes=2).thresholds)
    assert "1 B" in large
    assert "FSDP" in large
    assert "cannot be judged" in "\n".join(advised("").thresholds)


def test_every_constant_has_a_source_and_no_number_is_loose():
    assert all(constant.source and constant.meaning for constant in sources())
    loose = [n for n, v in vars(estimates).items() if isinstance(v, (int, float)) and not n.startswith("_")]
    assert loose == []


def test_known_models_have_torchvision_s_numbers():
    models = pytest.importorskip("torchvision.models")
    for name, count in KNOWN_MODELS.items():
        weights = models.get_model_weights(name)
        assert next(iter(weights)).meta["num_params"] == count


@pytest.mark.parametrize(
    "text, count", [("1.3B", 1_300_000_000), ("350m", 350_000_000), ("110e6", 110_000_000), ("7", 7)]
)
def test_numbers_of_parameters(text, count):
    assert parse_count(text) == count


@pytest.mark.parametrize("text", ["", "many", "-3", "0", "1.3Q"])
def test_what_is_no_number_of_parameters(text):
    with pytest.raises(ValueError):
        parse_count(text)


def test_a_program_is_read_and_not_run(tmp_path):
    entry = tmp_path / "train.py"
    entry.write_text(
        "import torch, torchvision\nraise SystemExit(9)\nmodel = torch.nn.DataParallel(torchvision.models.resnet50())\n"
        "opt = torch.optim.SGD(model.parameters(), 0.1)\nopt.step()\n"
    )
    reading = read_program(entry)
    assert reading.wraps == (f"{entry}:3",)
    assert reading.models[0][:2] == ("resnet50", 25_557_032)
    assert reading.optimizers == ("momentum",)


def test_text_and_json_are_labelled_as_estimates():
    advice = advised("1.3B", nodes=2)
    assert "Estimates, not measurements" in to_text(advice, Reading())
    document = json.loads(to_json(advice, Reading()))
    assert document["label"] == "estimate, not measured"
    assert document["form"] == "ddp"


def test_bounds_from_measured_steps():
    (bound,) = calibrated(100.0, 25.0, 4)
    assert (bound.low, bound.high) == (2.0, 4.0)
    (bound,) = calibrated(100.0, None, 4)
    assert (bound.low, bound.high) == (1.0, 4.0)
    assert calibrated(100.0, 1.0, 1) == []


def test_a_report_of_bench_calibrates_the_advice(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(dump(FOUR)))
    done = CliRunner().invoke(app, ["advise", "--params", "25M", "--gpus", "4", "--calibrate", str(path)])
    assert done.exit_code == 0, done.output
    assert "measured: gradient synchronisation of 10 ms" in done.stdout
    assert CliRunner().invoke(app, ["advise", "--params", "25M", "--calibrate", "none.json"]).exit_code == 4


def test_a_mistake_is_one_line():
    done = CliRunner().invoke(app, ["advise", "--params", "many"])
    assert done.exit_code == 2
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "machine, gpus, memory, said",
    [
        (FOUR_CARDS, 4, 81920 << 20, "200 to 100 GB/s"),
        (UNEQUAL, 2, 24564 << 20, "20 to 8 GB/s"),
        (NONE, 4, None, "the cards' memory: give --memory"),
    ],
)
def test_the_machine_s_own_cards_are_taken_the_smaller_of_unequal_ones(monkeypatch, machine, gpus, memory, said):
    monkeypatch.setattr("migrator.machines.advise_program.read_gpus", lambda: (machine.gpus, machine.links))
    words = ["advise", "--params", "340M"]
    document = json.loads(CliRunner().invoke(app, [*words, "--format", "json"]).stdout)
    assert (document["setting"]["gpus"], document["setting"]["memory"]) == (gpus, memory)
    assert document["form"] == "ddp"
    assert said in " ".join(CliRunner().invoke(app, words).stdout.split())
