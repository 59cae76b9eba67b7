"""Programs in DistributedDataParallel form, by hand or by an earlier conversion, take accelerate's form."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path

import pytest

from migrator.convert.conversion import Conversion
from migrator.formats.diff import diff_bytes
from tests.hazards.cases import CASES
from tests.rules.tools import training

from .conftest import Runs, convert
from .programs import BY_HAND, CONTRASTIVE, PLAIN

Converted = Callable[..., tuple[Conversion, str]]


def test_samplers_ranks_and_the_group_go(converted: Converted) -> None:
    conversion, after = converted(BY_HAND)
    assert not conversion.questions
    for gone in (
        "DistributedSampler",
        "train_sampler",
        "init_process_group",
        "destroy_process_group",
        "DDP",
        "LOCAL_RANK",
    ):
        assert gone not in after, gone
    assert "model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)" in after
    assert "rank = accelerator.process_index" in after
    assert "accelerator.wait_for_everyone()" in after
    assert "if accelerator.is_main_process:\n            torch.save(accelerator.unwrap_model(model)" in after


def test_the_batch_of_a_process_stays_what_it_was(converted: Converted) -> None:
    conversion, after = converted(BY_HAND)
    assert "split_batches" not in after
    assert "DataLoader(train_set, batch_size=args.batch_size, shuffle=True" in after
    assert any("stays the batch of each process" in d.message for d in conversion.diagnostics)


def test_the_order_of_the_samples_stays_what_it_was(converted: Converted) -> None:
    """A seedable sampler draws as a DistributedSampler does: from the seed and the number of the epoch."""
    _, after = converted(BY_HAND.replace("DistributedSampler(train_set)", "DistributedSampler(train_set, seed=5)"))
    assert "DataLoaderConfiguration(use_seedable_sampler=True, data_seed=5)" in after
    assert "    for epoch in range(args.epochs):\n        train_loader.set_epoch(epoch)\n" in after


def test_an_order_that_is_not_shuffled_needs_no_seed(converted: Converted) -> None:
    source = BY_HAND.replace("DistributedSampler(train_set)", "DistributedSampler(train_set, shuffle=False)")
    _, after = converted(source)
    assert 'Accelerator(mixed_precision="no")' in after
    assert "DataLoader(train_set, batch_size=args.batch_size, shuffle=False" in after


def test_a_seed_that_is_no_number_is_left_to_accelerate(converted: Converted) -> None:
    """The processes may have different ones in the general stream; accelerate brings the order in line by itself."""
    source = BY_HAND.replace("DistributedSampler(train_set)", "DistributedSampler(train_set, seed=args.epochs)")
    conversion, after = converted(source)
    assert not conversion.questions and "seedable" not in after


def test_a_program_that_never_told_the_epoch_is_told_of_it(converted: Converted) -> None:
    conversion, after = converted(BY_HAND.replace("        train_sampler.set_epoch(epoch)\n", ""))
    assert "train_loader.set_epoch(epoch)" in after
    assert any("had the order of the first" in d.message for d in conversion.diagnostics)


def test_arguments_of_the_wrapper_become_a_handler(converted: Converted) -> None:
    source = BY_HAND.replace(
        "find_unused_parameters=False", "find_unused_parameters=True, gradient_as_bucket_view=True"
    )
    _, after = converted(source)
    handler = "DistributedDataParallelKwargs(find_unused_parameters=True, gradient_as_bucket_view=True)"
    assert f"kwargs_handlers=[{handler}]" in after


def test_processes_that_the_program_starts_itself_are_the_launchers(converted: Converted) -> None:
    source = BY_HAND.replace("def main():", "def main(gpu, args):").replace(
        "import torch\n", "import torch\nimport torch.multiprocessing as mp\n", 1
    )
    source = source.replace('int(os.environ["LOCAL_RANK"])', "gpu")
    source = source.replace("    main()\n", "    mp.spawn(main, args=(None,), nprocs=torch.cuda.device_count())\n")
    _, after = converted(source)
    assert "main(accelerator.local_process_index, None)" in after
    assert "spawn" not in after


def test_every_hunk_names_its_rule(converted: Converted) -> None:
    conversion, _ = converted(BY_HAND)
    (change,) = conversion.changes
    heads = [line for line in diff_bytes(change).decode().splitlines() if line.startswith("@@")]
    assert heads and all(" MG" in head for head in heads)
    lines = BY_HAND.splitlines()
    named = {d.at.line for d in conversion.diagnostics if d.rule == "MG305"}
    assert any("DDP(model" in lines[number - 1] for number in named), named


@pytest.mark.parametrize(
    "line",
    ["dist.broadcast(targets, 0)", "outputs = [None]; dist.all_gather_object(outputs, 1)", "dist.all_reduce(loss)"],
)
def test_an_exchange_of_its_own_is_a_question_and_nothing_changes(converted: Converted, line: str) -> None:
    conversion, after = converted(
        BY_HAND.replace("            optimizer.step()\n", f"            optimizer.step()\n            {line}\n")
    )
    assert [d.rule for d in conversion.questions] == ["MG109"]
    assert not conversion.changes and "DistributedSampler" in after


APEX = BY_HAND.replace("from torch.nn.parallel import", "from apex.parallel import").replace(
    "DDP(model, device_ids=[local_rank] if torch.cuda.is_available() else None, find_unused_parameters=False)",
    "DDP(model, delay_allreduce=True)",
)


def test_the_wrapper_of_apex_is_one_too(converted: Converted) -> None:
    assert "DDP(model, delay" in APEX
    conversion, after = converted(APEX)
    assert not conversion.questions and "apex" not in after
    assert "model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)" in after


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("delay_allreduce=True", "gradient_predivide_factor=2.0", "no place in accelerate's form"),
        ("from apex.parallel", "from other.parallel", "not torch's"),
        ("model = DDP(model, delay_allreduce=True)", "print(DDP)", "nothing is wrapped"),
    ],
)
def test_a_wrapper_that_does_something_else_is_a_question(converted: Converted, old: str, new: str, told: str) -> None:
    conversion, _ = converted(APEX.replace(old, new))
    assert not conversion.changes and any(told in d.message for d in conversion.questions), conversion.questions


def test_a_loss_over_the_batch_stays_one_over_the_batch_of_a_process(converted: Converted) -> None:
    """That is what the DistributedDataParallel program computed."""
    source = BY_HAND.replace(
        "criterion(model(inputs), targets)", "nn.functional.cross_entropy(model(inputs) @ model(inputs).t(), targets)"
    )
    conversion, after = converted(source)
    assert conversion.way == "distributed" and not conversion.questions
    assert "accelerator.backward(loss)" in after


@pytest.mark.parametrize("source", [PLAIN, CONTRASTIVE, training("pass")], ids=["plain", "contrastive", "short"])
def test_over_the_ddp_form_the_result_is_the_same(tmp_path: Path, source: str) -> None:
    """Apart from names that the first conversion gave, and from where the model is put on its device."""
    straight = convert(tmp_path / "straight", source)
    text = (tmp_path / "straight" / "train.py").read_text()
    convert(tmp_path / "over", source, target="ddp")
    first = {p.name: p.read_text() for p in (tmp_path / "over").glob("*.py")}
    again = convert(tmp_path / "again", first)
    assert again.way == straight.way and not again.questions
    other = (tmp_path / "again" / "train.py").read_text()
    rows = difflib.unified_diff(text.splitlines(), other.splitlines(), n=0, lineterm="")
    changed = [row for row in rows if row[0] in "+-" and not row.startswith(("+++", "---"))]
    allowed = ("_utils", ".cuda()", "is_available()", "train_set", "Linear", ".to(device)", "DataLoader(", "import os")
    assert all(any(word in row for word in allowed) or len(row) == 1 for row in changed), changed


@pytest.mark.long
@pytest.mark.parametrize("case", [c for c in CASES if c.verdict], ids=lambda c: c.program)
def test_every_conversion_to_ddp_converts_on(tmp_path: Path, case: object) -> None:
    from tests.hazards.tools import PROGRAMS

    names = [f"{case.program}.py", *case.files]  # type: ignore[attr-defined]
    files = {name: (PROGRAMS / name).read_text() for name in names}
    files["train.py"] = files.pop(names[0])
    convert(tmp_path / "ddp", files, target="ddp")
    again = convert(tmp_path / "again", {p.name: p.read_text() for p in (tmp_path / "ddp").glob("*.*")})
    assert again.changes and not again.questions
    text = (tmp_path / "again" / "train.py").read_text()
    assert "Accelerator(" in text and "setup_distributed" not in text


# ---------------------------------------------------------------- run
def test_a_program_by_hand_trains_as_it_did(runs: Runs) -> None:
    """A step's samples are the same; which process has which of them is not."""
    before, after = (
        [sum(losses) / 2 for losses in zip(*(one["history"]["loss"] for one in runs.said[name]), strict=True)]
        for name in ("by hand.2", "from hand.2")
    )
    assert after == pytest.approx(before, abs=1e-12)
    assert runs["from hand.2"]["weight"] == pytest.approx(runs["by hand.2"]["weight"], abs=1e-12)
    assert runs["from hand.2"]["accuracy"] == pytest.approx(runs["by hand.2"]["accuracy"], abs=1e-12)


def test_a_program_by_hand_runs_alone(runs: Runs) -> None:
    """Its batch is that of one process then: twice the steps of two processes."""
    assert len(runs["from hand.1"]["loss"]) == 2 * len(runs["from hand.2"]["loss"])


@pytest.mark.parametrize("world", [pytest.param(1, marks=pytest.mark.long), 2])
def test_over_the_ddp_form_the_training_is_the_same(runs: Runs, world: int) -> None:
    straight, over = runs[f"plain.{world}"], runs[f"over ddp.{world}"]
    assert over["loss"] == pytest.approx(straight["loss"], abs=1e-12)
    assert over["accuracy"] == straight["accuracy"] and over["lr"] == straight["lr"]
