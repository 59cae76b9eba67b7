"""What the accelerate form looks like, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from codemods.options import Options
from migrator.launch.command import accelerate_line, launch_config
from tests.rules.tools import check_note, check_question, check_rewrite, convert, training

from .programs import ACCUMULATING, CONTRASTIVE, FILES, PLAIN, TRAINER

Converted = Callable[..., tuple[object, str]]


def test_the_accelerator_is_made_first_and_says_its_precision() -> None:
    check_rewrite(
        PLAIN,
        """
        if __name__ == "__main__":
            accelerator = Accelerator(
                mixed_precision="no",
                dataloader_config=DataLoaderConfiguration(split_batches=True, use_seedable_sampler=True),
            )
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


@pytest.mark.parametrize("leaving", ["break", "return", "raise RuntimeError"])
def test_a_loader_that_is_left_early_is_told_its_epoch(leaving: str) -> None:
    source = training("pass")
    told = "loader.set_epoch(epoch)"
    assert told not in convert(source, target="accelerate").changes[0].after
    line = "            optimizer.step()\n"
    assert line in source
    left = source.replace(line, f"{line}            if epoch > 7:\n                {leaving}\n")
    after = convert(left, target="accelerate").changes[0].after
    assert f"    for epoch in range(2):\n        {told}\n" in after


def test_a_loop_within_a_step_may_be_left() -> None:
    line = "            optimizer.step()\n"
    inner = f"{line}            for one in (1, 2):\n                break\n"
    after = convert(training("pass").replace(line, inner), target="accelerate").changes[0].after
    assert "Accelerator(" in after and "set_epoch" not in after


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


def test_batches_of_the_prepared_loader_are_not_moved_again() -> None:
    conversion = check_rewrite(
        PLAIN,
        """
        for inputs, targets in loader:
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
        """,
        "MG319",
        target="accelerate",
    )
    after = conversion.changes[0].after
    assert after.count("inputs, targets = inputs.to(device), targets.to(device)") == 1  # the evaluation's own loader


@pytest.mark.parametrize(
    ("loop", "left"),
    [
        ("x, y = (t.to(device) for t in batch)", "x, y = batch"),
        ("batch = {k: v.to(device) for k, v in batch.items()}", None),
        ("batch = batch.cuda(non_blocking=True)", None),
        ("if torch.cuda.is_available():\n                batch = batch.cuda()", None),
        ("if flag:\n                batch = batch.cuda()", "if flag:"),
        ("batch = batch.to(torch.float64)", "batch = batch.to(torch.float64)"),
        ("batch = batch[0].to(device)", "batch = batch[0].to(device)"),
        ("weights = weights.to(device)", "weights = weights.to(device)"),
    ],
)
def test_only_plain_moves_of_the_batch_go(loop: str, left: str | None) -> None:
    source = training("pass").replace("for inputs, targets in loader:", f"for batch in loader:\n            {loop}")
    source = source.replace("model(inputs), targets", "model(batch[0]), batch[1]")
    source = source.replace(
        "    model = nn.Data", "    device, flag = 'cuda', True\n    weights = torch.ones(2)\n    model = nn.Data"
    )
    after = convert(source, target="accelerate", sampling="distributed", loss="local").changes[0].after
    body = after.partition("for batch in loader:")[2].splitlines()[1].strip()
    assert body == left if left is not None else body.startswith("loss ="), body


@pytest.mark.parametrize(
    ("line", "device"),
    [
        (
            'there = torch.cuda.is_available()\n    device = torch.device("cuda" if there else "cpu")',
            "accelerator.device",
        ),
        ('device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")', "accelerator.device"),
        ('there = len(data) > 1\n    device = torch.device("cuda" if there else "cpu")', None),
        (
            'there = torch.cuda.is_available()\n    there = not there\n    device = torch.device("cuda" if there else "cpu")',
            None,
        ),
    ],
)
def test_the_device_is_the_accelerators_where_the_program_asks_for_a_gpu(line: str, device: str | None) -> None:
    source = training("pass").replace(
        "    model = nn.Data", f"    {line}\n    weights = torch.ones(2, device=device)\n    model = nn.Data"
    )
    conversion = convert(source, target="accelerate")
    assert not conversion.questions
    after = conversion.changes[0].after
    assert (f"device = {device}\n" if device else line.rpartition("\n")[2].strip()) in after


@pytest.mark.parametrize(
    ("first", "moved"), [("started = torch.tensor(epoch)", True), ("inputs = inputs.flip(0)", False)]
)
def test_what_stands_above_a_move_keeps_it_only_where_it_touches_the_batch(first: str, moved: bool) -> None:
    source = training("pass").replace(
        "            loss =", f"            {first}\n            inputs = inputs.cuda()\n            loss ="
    )
    assert first in source
    after = convert(source, target="accelerate", sampling="distributed", loss="local").changes[0].after
    assert ("inputs = inputs.cuda()" in after) is not moved


def test_accelerate_is_imported_among_the_libraries() -> None:
    after = convert(training("pass"), target="accelerate").changes[0].after
    places = [after.index(line) for line in ("import torch\n", "from accelerate import", "from torch import nn\n")]
    assert places == sorted(places)


def test_what_is_printed_goes_through_the_accelerator() -> None:
    conversion = check_rewrite(
        PLAIN, 'accelerator.print(f"epoch {epoch}: accuracy {accuracy:.4f}")', "MG514", target="accelerate"
    )
    assert "devnull" not in conversion.changes[0].after


@pytest.mark.parametrize(
    "line",
    [
        "import sys; sys.stdout.write('done')",
        "class Own(torch.utils.data.Dataset):\n    def __len__(self):\n        print(1)",
    ],
)
def test_where_something_else_prints_the_other_processes_are_silenced(line: str) -> None:
    after = convert(training(f"{line}\nprint(epoch)"), target="accelerate").changes[0].after
    assert '.stdout = open(os.devnull, "w")' in after and "accelerator.print" not in after


def test_accumulation_stays_the_programs_own_unless_asked() -> None:
    after = convert(ACCUMULATING, target="accelerate").changes[0].after
    assert "accelerator.backward((loss / every))" in after or "accelerator.backward(loss / every)" in after
    assert "accumulate" not in after


def test_accumulation_in_accelerates_way() -> None:
    conversion = check_rewrite(
        ACCUMULATING,
        """
        accelerator.gradient_accumulation_steps = every
        for i, (inputs, targets) in enumerate(loader):
            with accelerator.accumulate(model):
                loss = criterion(model(inputs), targets)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    optimizer.zero_grad()
        """,
        "MG412",
        target="accelerate",
        accumulate=True,
    )
    assert conversion.policies == ("--accumulate",)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("(loss / every).backward()", "loss.backward()", "not divided"),
        ("if (i + 1) % every == 0:", "if i % every == 0:", "first batch already"),
        ("if (i + 1) % every == 0:", "if (i + 1) % every == 0 or i == 9:", "another condition"),
    ],
)
def test_accumulation_of_another_kind_is_a_question(old: str, new: str, told: str) -> None:
    check_question(ACCUMULATING.replace(old, new), told, "MG412", target="accelerate", accumulate=True)


def test_save_state_and_trackers_are_offered() -> None:
    check_note(PLAIN, "accelerator.save_state(FOLDER)", "MG611", target="accelerate")
    source = "from torch.utils.tensorboard import SummaryWriter\n" + training("writer = SummaryWriter('runs')", 1)
    check_note(source, 'Accelerator(log_with="tensorboard")', "MG104", target="accelerate")
    check_note(PLAIN, "ACCELERATE_USE_CPU=true", "MG104", target="accelerate")


def test_the_exact_way_deals_out_the_programs_batches() -> None:
    conversion = check_rewrite(
        PLAIN,
        """
        train_loader = process_batches(accelerator, DataLoader(train_set, batch_size=args.batch_size, shuffle=True))
        """,
        "MG204",
        target="accelerate",
        sampling="batch",
    )
    after = conversion.changes[0].after
    assert conversion.way == "batch"
    assert "model, optimizer = accelerator.prepare(model, optimizer)" in after
    assert 'accelerator = Accelerator(mixed_precision="no")\n' in after
    assert not any("fills an epoch's last batch up" in d.message for d in conversion.diagnostics)


def test_evaluation_is_shared_out_without_padding() -> None:
    conversion = check_rewrite(
        PLAIN,
        """
        with torch.no_grad():
            unwrapped_model = accelerator.unwrap_model(model)
            broadcast(list(unwrapped_model.buffers()))  # the main process's statistics, as under DataParallel
            for inputs, targets in loader:
                inputs, targets = inputs.to(device), targets.to(device)
                output = unwrapped_model(inputs)
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


def test_a_loss_over_the_batch_sees_the_rows_of_all_processes() -> None:
    conversion = check_rewrite(
        CONTRASTIVE,
        """
        for (inputs,) in loader:
            features = gather_batch(accelerator, model(inputs))
            similar = features @ features.t()
        """,
        "MG405",
        target="accelerate",
    )
    after = conversion.changes[0].after
    assert conversion.way == "distributed" and "split_batches=True" in after
    assert "model, optimizer, loader = accelerator.prepare(model, optimizer, loader)" in after
    assert any("cut off before the loss" in d.message for d in conversion.diagnostics)


def test_a_gradient_that_backward_is_given_is_passed_on_by_keyword() -> None:
    source = training("pass").replace("loss.backward()", "loss.backward(torch.ones(()), True)")
    call = "accelerator.backward(loss, gradient=torch.ones(()), retain_graph=True)"
    check_rewrite(source, call, "MG411", target="accelerate")


def test_functions_of_other_modules_take_the_accelerator(converted: Converted) -> None:
    conversion, entry = converted(FILES)
    assert "train_loader, val_loader = get_loaders(16, accelerator=accelerator)" in entry
    assert "train_one_epoch(model, train_loader, optimizer, accelerator=accelerator)" in entry
    texts = {change.path.rpartition("/")[2]: change.after for change in conversion.changes}  # type: ignore[attr-defined]
    assert "def train_one_epoch(model, loader, optimizer, accelerator):" in texts["engine.py"]
    assert "accelerator.backward(loss)" in texts["engine.py"]
    assert "def get_loaders(batch_size, accelerator):" in texts["data.py"]
    assert "DataParallel" not in texts["models.py"]


def test_a_function_with_the_name_of_a_method_takes_the_accelerator_too(converted: Converted) -> None:
    """`model.train()` is no call of the program's own `train`."""
    files = {name: text.replace("train_one_epoch", "train") for name, text in FILES.items()}
    conversion, entry = converted(files)
    assert "train(model, train_loader, optimizer, accelerator=accelerator)" in entry
    assert conversion.way == "distributed"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "use", ["step = engine.train", "import importlib\nstep = importlib.import_module('engine').train"]
)
def test_a_function_that_is_also_passed_around_does_not(converted: Converted, use: str) -> None:
    files = {name: text.replace("train_one_epoch", "train") for name, text in FILES.items()}
    files["train.py"] = f"import engine\n{use}\n{files['train.py']}"
    _, entry = converted(files)
    assert (
        "        train(model, train_loader, optimizer)\n" in entry
        and "get_loaders(16, accelerator=accelerator)" in entry
    )


def test_a_constructor_of_another_module_keeps_the_accelerator(converted: Converted) -> None:
    conversion, entry = converted(TRAINER)
    texts = {change.path.rpartition("/")[2]: change.after for change in conversion.changes}  # type: ignore[attr-defined]
    after = texts["trainer.py"]
    assert "trainer = Trainer(None, accelerator=accelerator)" in entry
    assert "def __init__(self, args, accelerator):" in after and "self.accelerator = accelerator" in after
    assert "self.model, self.optimizer, self.loader = accelerator.prepare(" in after
    assert "self.accelerator.backward(loss)" in after
    assert "Accelerator()" not in after


@pytest.mark.parametrize("made", ["getattr(trainer, 'Trainer')(None)", "make(Trainer)"])
def test_where_it_cannot_be_handed_over_no_second_one_is_made(converted: Converted, made: str) -> None:
    files = dict(TRAINER)
    entry = files["train.py"].replace("from trainer import Trainer", "import trainer\nfrom trainer import Trainer")
    entry = entry.replace("def main():", "def make(kind):\n    return kind(None)\n\n\ndef main():")
    files["train.py"] = entry.replace("trainer = Trainer(None)", f"one = {made}").replace(
        "trainer.train(", "one.train("
    )
    conversion, _ = converted(files)
    for change in conversion.changes:  # type: ignore[attr-defined]
        assert change.after.count("Accelerator(mixed_precision") <= 1 and "Accelerator()" not in change.after


def test_handlers_are_made_only_when_asked_for() -> None:
    assert "kwargs_handlers" not in convert(PLAIN, target="accelerate").changes[0].after
    after = convert(PLAIN, target="accelerate", find_unused=True, pg_timeout=60).changes[0].after
    assert "DistributedDataParallelKwargs(find_unused_parameters=True)" in after
    assert "InitProcessGroupKwargs(timeout=timedelta(seconds=60))" in after


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


@pytest.mark.parametrize(
    ("lines", "left"),
    [
        ("model = nn.Linear(4, 2).cuda(0)\n    model = nn.DataParallel(model)", "model = nn.Linear(4, 2)\n"),
        ("model = nn.DataParallel(nn.Linear(4, 2).cuda(0)).cuda()", "model = nn.Linear(4, 2)\n"),
        ("model = nn.Linear(4, 2)\n    model.cuda(0)\n    model = nn.DataParallel(model)", "model = nn.Linear(4, 2)\n"),
        (
            'model = nn.Linear(4, 2)\n    model.to("cuda:0")\n    model = nn.DataParallel(model)',
            "model = nn.Linear(4, 2)\n",
        ),
        (
            "model = nn.Linear(4, 2).cuda()\n    print(model(torch.ones(1, 4).cuda()))\n    model = nn.DataParallel(model)",
            "model = nn.Linear(4, 2).cuda()\n",
        ),
        (
            "model = nn.DataParallel(nn.Linear(4, 2).cuda())\n    where = next(model.parameters()).device",
            "model = nn.Linear(4, 2).cuda()\n",
        ),
        ("model = nn.DataParallel(nn.Linear(4, 2).cuda().half())", "model = nn.Linear(4, 2).cuda().half()\n"),
    ],
    ids=["in its line", "within", "own line", "cuda:0", "called before", "asked where it is", "half"],
)
def test_the_model_is_moved_by_prepare_unless_something_needs_it_before(lines: str, left: str) -> None:
    source = training("pass").replace("model = nn.DataParallel(nn.Linear(4, 2))", lines)
    assert lines in source
    conversion = convert(source, target="accelerate")
    assert not conversion.questions
    after = conversion.changes[0].after
    assert (
        left in after
        and after.count(".cuda()") == left.count(".cuda()") + lines.count("print")
        and '"cuda' not in after
    )


def test_where_importing_the_file_runs_it_the_training_itself_still_uses_the_accelerator() -> None:
    """Functions that others may import ask the state of the processes instead, which is there for everybody."""
    source = training("save(model)").replace("shuffle=True", "shuffle=True, num_workers=4")
    source = source.replace(
        "def main():", 'torch.manual_seed(0)\n\n\ndef save(model):\n    torch.save(model, "m.pt")\n\n\ndef main():'
    ).replace("save(model)\n\n", "save(model.state_dict())\n\n")
    after = convert(source, target="accelerate").changes[0].after
    assert after.index("accelerator = Accelerator(") < after.index("torch.manual_seed(0)")
    assert (
        "num_workers=math.ceil(4 / accelerator.num_processes)" in after and "vary_seed_by_process(accelerator)" in after
    )
    assert "    if PartialState().is_main_process:\n        torch.save(model" in after


@pytest.mark.parametrize("own", ["def set_seed(seed):\n    torch.manual_seed(seed)", "from helpers import set_seed"])
def test_names_that_the_program_has_for_something_else_stay_its_own(converted: Converted, own: str) -> None:
    """What generated functions import would take their place: then these functions stand in a module of their own."""
    source = training("pass").replace("def main():", f"{own}\n\n\ndef main():\n    set_seed(1)")
    files = {"train.py": source, "helpers.py": "import torch\n\n\ndef set_seed(seed):\n    torch.manual_seed(seed)\n"}
    conversion, entry = converted(files)
    assert "accelerate.utils import set_seed" not in entry and "DataLoaderConfiguration, set_seed" not in entry
    texts = {change.path.rpartition("/")[2]: change.after for change in conversion.changes}  # type: ignore[attr-defined]
    (helpers,) = (name for name in texts if name != "train.py")
    assert "from accelerate.utils import set_seed" in texts[helpers]
    assert f"from {helpers.removesuffix('.py')} import vary_seed_by_process" in entry
