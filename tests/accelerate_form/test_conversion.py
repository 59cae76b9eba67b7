"""What the accelerate form looks like, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from codemods.base import Options
from migrator.launch import accelerate_line, launch_config
from tests.rules.tools import check_rewrite, convert, training

from .programs import CONTRASTIVE, FILES, PLAIN

Converted = Callable[..., tuple[object, str]]


def test_the_accelerator_is_made_first_and_says_its_precision() -> None:
    check_rewrite(
        PLAIN,
        """
        if __name__ == "__main__":
            accelerator = Accelerator(mixed_precision="no", dataloader_config=DataLoaderConfiguration(split_batches=True))
            if not accelerator.is_main_process:
                sys.stdout = open(os.devnull, "w")  # one process speaks for all
            main()
            accelerator.end_training()
        """,
        "MG104",
        target="accelerate",
    )


def test_one_prepare_call_and_no_schedule_in_it() -> None:
    check_rewrite(
        PLAIN,
        """
        if args.plateau:
            scheduler = ReduceLROnPlateau(optimizer, patience=1)
        else:
            scheduler = StepLR(optimizer, step_size=2)
        # Schedules stay out of prepare(): a prepared one would step once per process.
        model, optimizer, train_loader = accelerator.prepare(model, optimizer, train_loader)
        start = 0
        """,
        "MG305",
        target="accelerate",
    )


def test_backward_and_clipping() -> None:
    check_rewrite(
        PLAIN,
        """
        optimizer.zero_grad()
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        """,
        "MG411",
        target="accelerate",
    )


def test_evaluation_is_shared_out_without_padding() -> None:
    conversion = check_rewrite(
        PLAIN,
        """
        with torch.no_grad():
            share_buffers(accelerator, model)
            for inputs, targets in loader:
                inputs, targets = inputs.to(device), targets.to(device)
                output = accelerator.unwrap_model(model)(inputs)
                correct += (output.argmax(dim=1) == targets).sum().item()
                counted += targets.size(0)
            correct, counted = sum_over_processes(accelerator, correct, counted)
        """,
        "MG702",
        target="accelerate",
    )
    assert "gather_for_metrics" not in conversion.changes[0].after


@pytest.mark.parametrize(
    ("keep_prefix", "written"),
    [
        (False, '"model": accelerator.unwrap_model(model).state_dict(),'),
        (True, '"model": with_module_prefix(accelerator.unwrap_model(model).state_dict()),'),
    ],
)
def test_checkpoints(keep_prefix: bool, written: str) -> None:
    conversion = convert(PLAIN, target="accelerate", keep_prefix=keep_prefix)
    after = conversion.changes[0].after
    assert written in after
    assert 'accelerator.unwrap_model(model).load_state_dict(without_module_prefix(checkpoint["model"]))' in after
    told = [d.message for d in conversion.diagnostics if d.rule == "MG611" and d.level == "note"]
    assert bool(told) == (not keep_prefix)


def test_keys_that_the_program_looks_at_stay_what_they_were() -> None:
    conversion = convert(
        training("own = model.state_dict()\nprint([k for k in own if k.startswith('module.')])"), target="accelerate"
    )
    assert "own = with_module_prefix(accelerator.unwrap_model(model).state_dict())" in conversion.changes[0].after


def test_the_network_behind_the_wrapper_is_reached_without_one() -> None:
    lines = 'torch.save(model.module.state_dict() if hasattr(model, "module") else model.state_dict(), "m.pt")'
    check_rewrite(
        training(lines),
        """
        if accelerator.is_main_process:
            torch.save(accelerator.unwrap_model(model).state_dict(), "m.pt")
        """,
        "MG306",
        target="accelerate",
    )


def test_an_object_that_keeps_the_loader_gets_the_prepared_one() -> None:
    """The loader is prepared where it is made when something takes it before model and optimizer are there."""
    source = training("pass").replace(
        "    model = nn.DataParallel", "    watched = [loader]\n    model = nn.DataParallel"
    )
    after = convert(source, target="accelerate").changes[0].after
    if "accelerator.prepare(model, optimizer, loader)" in after:
        pytest.fail("the list keeps a loader that gives all processes the same samples")


def test_the_last_batch_is_named() -> None:
    messages = [d.message for d in convert(PLAIN, target="accelerate").diagnostics if d.rule == "MG201"]
    assert any("fills an epoch's last batch up" in message for message in messages)
    dropping = PLAIN.replace("shuffle=True)", "shuffle=True, drop_last=True)")
    assert not [d for d in convert(dropping, target="accelerate").diagnostics if d.rule == "MG201"]


def test_a_loss_over_the_batch_is_split_at_the_call() -> None:
    conversion = convert(CONTRASTIVE, target="accelerate")
    assert conversion.way == "call"
    assert "con" in conversion.reason or "loss" in conversion.reason
    after = conversion.changes[0].after
    assert 'accelerator = Accelerator(mixed_precision="no")\n' in after
    assert "SplitDataParallel(nn.Linear(4, 3))" in after
    assert ".prepare(" not in after


def test_functions_of_other_modules_take_the_accelerator(converted: Converted) -> None:
    conversion, entry = converted(FILES)
    assert "train_loader, val_loader = get_loaders(16, accelerator=accelerator)" in entry
    assert "train_one_epoch(model, train_loader, optimizer, accelerator=accelerator)" in entry
    texts = {change.path.rpartition("/")[2]: change.after for change in conversion.changes}  # type: ignore[attr-defined]
    assert "def train_one_epoch(model, loader, optimizer, accelerator):" in texts["engine.py"]
    assert "accelerator.backward(loss)" in texts["engine.py"]
    assert "def get_loaders(batch_size, accelerator):" in texts["data.py"]
    assert "DataParallel" not in texts["models.py"]


def test_handlers_are_made_only_when_asked_for() -> None:
    assert "kwargs_handlers" not in convert(PLAIN, target="accelerate").changes[0].after
    after = convert(PLAIN, target="accelerate", find_unused=True, pg_timeout=60).changes[0].after
    assert "DistributedDataParallelKwargs(find_unused_parameters=True)" in after
    assert "InitProcessGroupKwargs(timeout=timedelta(seconds=60))" in after


def test_a_program_that_uses_ddp_already_is_a_question() -> None:
    from migrator.convert import convert_program
    from migrator.source import Source

    source = convert(PLAIN).changes[0].after
    from pathlib import Path

    again = convert_program(Path("train.py"), Options(target="accelerate"), Source("train.py", source))
    assert not again.changes
    assert [d.rule for d in again.questions] == ["MG902"]


def test_the_launch_line_leaves_nothing_to_the_environment() -> None:
    line = accelerate_line("train.py", Options(target="accelerate", nproc=4))
    assert line == (
        "accelerate launch --multi_gpu --num_processes 4 --num_machines 1 --mixed_precision no --dynamo_backend no train.py"
    )
    assert "--num_processes 8 --num_machines 2" in accelerate_line("train.py", Options(nproc=4, nodes=2))


def test_the_configuration_file_says_the_same() -> None:
    text = launch_config(Options(target="accelerate", nproc=4))
    assert (
        "num_processes: 4\n" in text and "mixed_precision: 'no'\n" in text and "distributed_type: MULTI_GPU\n" in text
    )
