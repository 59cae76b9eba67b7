"""The converted programs run, on as many processes as were started, and train, measure and save as the original does.

Each of accelerate's surprises has a program beside it that trusts the defaults: the assertion that holds of the conversion
must not hold of that one.
"""

from __future__ import annotations

import pytest

from .conftest import Runs

ALONE_TOO = [pytest.param(1, marks=pytest.mark.long), 2]
FOUR_EPOCHS = [0.1, 0.01, 0.01, 0.001]


def test_a_step_sees_the_whole_batch(runs: Runs) -> None:
    assert set(runs["plain.1"]["rows"]) == {16}
    assert [set(one["history"]["rows"]) for one in runs.said["plain.2"]] == [{8}, {8}]
    assert [set(one["history"]["rows"]) for one in runs.said["four"]] == [{4}] * 4
    assert len(runs["plain.1"]["rows"]) == len(runs["plain.2"]["rows"])
    assert set(runs["defaults.2"]["rows"]) == {16}  # a batch of 32, and half the steps


def test_schedules_step_once(runs: Runs) -> None:
    assert runs["plain.1"]["lr"] == runs["plain.2"]["lr"] == runs["original"]["lr"] == pytest.approx(FOUR_EPOCHS)
    assert runs["defaults.2"]["lr"] != pytest.approx(FOUR_EPOCHS)


def test_a_plateau_is_waited_for(runs: Runs) -> None:
    expected = runs["plateau.1"]["lr"]
    assert expected[0] == expected[1] == 0.1 and expected[-1] < 0.1
    assert runs["plateau.2"]["lr"] == expected
    assert runs["defaults, plateau.2"]["lr"] != expected


def test_what_is_drawn_below_prepare_is_what_the_original_draws(runs: Runs) -> None:
    """First weights, splits and random data further down: accelerate's default takes a number out of torch's stream."""
    assert runs["plain.1"]["drawn"] == runs["plain.2"]["drawn"] == runs["four"]["drawn"] == runs["original"]["drawn"]
    assert runs["defaults.2"]["drawn"] != runs["original"]["drawn"]


def test_an_epoch_that_is_left_early_is_followed_by_another_order(runs: Runs) -> None:
    samples, untold = runs["left.2"]["samples"], runs["left, untold.2"]["samples"]
    assert len(samples) == len(untold) == 32  # two batches of 8 in each of two epochs
    assert set(samples[:16]) != set(samples[16:])
    assert untold[:16] == untold[16:]  # what accelerate makes of it by itself


def test_figures_are_those_of_the_whole_set(runs: Runs) -> None:
    """The weights stand still, so that the same 37 samples must give the same figures."""
    assert runs["still.1"]["counted"] == runs["still.2"]["counted"] == [37] * 2
    assert len({one["history"]["counted"][0] for one in runs.said["still.2"]}) == 1
    assert runs["padded.2"]["counted"] != [37] * 2


def test_an_accuracy_is_equal_on_all_processes(runs: Runs) -> None:
    for name in ("plain.2", "still.2", "several.2"):
        first, second = (one["history"]["accuracy"] for one in runs.said[name])
        assert first == second


def test_the_last_batch_is_filled_up_in_the_plain_form(runs: Runs) -> None:
    """52 samples in batches of 16: a named difference (see test_conversion)."""
    assert sum(runs["tail.1"]["rows"]) == 52
    assert sum(sum(one["history"]["rows"]) for one in runs.said["tail.2"]) == 64


def test_the_exact_form_trains_the_same_to_the_last_sample(runs: Runs) -> None:
    expected = runs["original, exact"]
    assert runs["exact.1"]["loss"] == pytest.approx(expected["loss"], abs=1e-12)
    # BatchNorm is DataParallel's: over each process's share.  What the original reports on one device is its whole batch.
    assert len(runs["exact.2"]["rows"]) == len(runs["exact.1"]["rows"])
    assert sum(sum(one["history"]["rows"]) for one in runs.said["exact.2"]) == 2 * 52


def test_with_whole_batches_dealt_out_no_sample_of_another_batch_comes_in(runs: Runs) -> None:
    """52 samples in batches of 16: the last one has 4, which two processes share; nothing is filled up."""
    rows = [one["history"]["rows"] for one in runs.said["batches.2"]]
    assert rows == [[8, 8, 8, 2] * 2] * 2
    assert [one["history"]["rows"] for one in runs.said["tail.2"]] == [[8, 8, 8, 8]] * 2  # accelerate's default


@pytest.mark.parametrize("world", ALONE_TOO)
def test_accelerates_accumulation_is_the_programs_where_windows_are_complete(runs: Runs, world: int) -> None:
    own, asked = runs[f"own_way.{world}"], runs[f"accumulate.{world}"]
    assert asked["loss"] == pytest.approx(own["loss"], abs=1e-12)
    assert asked["accuracy"] == own["accuracy"]


def test_a_loss_over_the_whole_batch_is_the_same_to_the_last_sample(runs: Runs) -> None:
    """50 samples in batches of 16: the last one has 2, and some processes nothing but what fills it up."""
    two, four = runs["contrastive.2"], runs["contrastive.4"]
    assert two["rows"] == four["rows"] == runs["contrastive.1"]["rows"] == [16, 16, 16, 2] * 2
    assert two["loss"] == pytest.approx(four["loss"], abs=1e-12)
    assert two["weight"] == pytest.approx(four["weight"], abs=1e-12)


def test_a_share_of_a_prepared_batch_would_be_another_batch(runs: Runs) -> None:
    """What accelerate's defaults make of it: each process its own pairs, and the last two samples among others."""
    assert runs["shares.2"]["rows"][3] == 8
    assert runs["shares.2"]["loss"] != pytest.approx(runs["contrastive.2"]["loss"], abs=1e-6)


def test_functions_of_other_modules_get_the_accelerator(runs: Runs) -> None:
    assert runs["several.1"]["accuracy"] == pytest.approx(runs["several.2"]["accuracy"], abs=1e-12)


def test_there_is_one_accelerator(runs: Runs) -> None:
    made = {name: {one["accelerators"] for one in said} for name, said in runs.said.items()}
    others = {name for name in made if name.startswith(("original", "ddp", "by hand")) or " into " in name}
    others = {name for name in others if not name.endswith((" into 1", " into 2"))}
    assert all(made[name] == {0} for name in others)
    assert all(made[name] == {1} for name in made if name not in others), made


def test_a_trainer_of_another_module_keeps_the_one_accelerator(runs: Runs) -> None:
    first, second = (one["history"]["weight"] for one in runs.said["trainer.2"])
    assert first == second != 0


def test_one_process_speaks(runs: Runs) -> None:
    first, second = (one["log"] for one in runs.said["plain.2"])
    assert first.count("epoch") == 4
    assert "epoch" not in second


# ---------------------------------------------------------------- which form loads which checkpoint
@pytest.mark.parametrize("world", ALONE_TOO)
@pytest.mark.parametrize("kind", ["original", "ddp", "prefixed", "bare1", "bare2"])
def test_every_checkpoint_loads(runs: Runs, kind: str, world: int) -> None:
    """What is read has the weights that were written, as the file itself says."""
    weights = {one["history"]["weight"] for one in runs.said[f"{kind} into {world}"]}
    assert len(weights) == 1
    assert weights.pop() == pytest.approx(_weight(runs, kind), abs=1e-12)


@pytest.mark.parametrize(
    ("kind", "reader"),
    [("original", "ddp"), ("ddp", "ddp"), ("prefixed", "ddp"), ("ddp", "original"), ("prefixed", "original")],
)
def test_the_other_forms_read_prefixed_keys(runs: Runs, kind: str, reader: str) -> None:
    assert runs[f"{kind} into {reader}"]["weight"] == pytest.approx(_weight(runs, kind), abs=1e-12)


@pytest.mark.parametrize("kind", ["bare1", "bare2"])
def test_bare_keys_are_refused_by_a_wrapped_model_and_not_read_wrongly(runs: Runs, kind: str) -> None:
    """What the original and the DDP form do with them: strict loading names every key."""
    import torch

    state = torch.load(runs.folder / "plain" / f"{kind}.pt")["model"]
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    with pytest.raises(RuntimeError, match="Missing key"):
        torch.nn.DataParallel(model).load_state_dict(state)


def test_keys_do_not_depend_on_the_number_of_processes(runs: Runs) -> None:
    assert runs["plain.1"]["keys"] == runs["plain.2"]["keys"] == ["0.bias"]
    assert runs["prefixed"]["keys"] == runs["original"]["keys"] == runs["ddp"]["keys"] == ["module.0.bias"]


def _weight(runs: Runs, kind: str) -> float:
    import torch

    state = torch.load(runs.folder / "plain" / f"{kind}.pt")["model"]
    names = [name for name in state if name.rpartition(".")[2] in ("weight", "bias")]
    return float(sum(state[name].abs().sum() for name in names))
