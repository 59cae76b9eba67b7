"""Rules that answer single hazards: what each leaves alone, what it makes of the rest, and that it says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program

from .tools import TRAINING, check_noop, check_note, check_question, check_rewrite, convert, training

DATA = "    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))\n"


def with_data(line: str) -> str:
    return (
        training("pass")
        .replace(DATA, DATA + line)
        .replace("import os\n", "import os\nfrom torchvision import datasets\n")
    )


# ---------------------------------------------------------------- MG510 download-first
def test_data_is_fetched_by_rank_zero_first() -> None:
    check_rewrite(
        with_data(
            '    data = datasets.MNIST("d", download=True)\n    test = datasets.MNIST("d", train=False, download=True)\n'
        ),
        """
        with rank_zero_first():
            data = datasets.MNIST("d", download=True)
            test = datasets.MNIST("d", train=False, download=True)
        """,
        "MG510",
    )


def test_data_that_a_function_gives_back_is_fetched_by_rank_zero_first() -> None:
    source = TRAINING.format("").replace(
        "def main():", 'def get(path):\n    return datasets.MNIST(path, download=True)\n\n\ndef main():\n    get("d")'
    )
    check_rewrite(
        source.replace("import os\n", "import os\nfrom torchvision import datasets\n"),
        """
        with rank_zero_first():
            return datasets.MNIST(path, download=True)
        """,
        "MG510",
    )


@pytest.mark.parametrize("line", ['datasets.MNIST("d")', 'datasets.MNIST("d", download=False)'])
def test_nothing_is_fetched(line: str) -> None:
    check_noop(with_data(f"    data = {line}\n"), "MG510")


def test_all_look_for_missing_data_in_turn() -> None:
    line = '    if not os.path.exists("d"):\n        data = datasets.MNIST("d", download=True)\n'
    expected = """
        with rank_zero_first():
            if not os.path.exists("d"):
                data = datasets.MNIST("d", download=True)
        """
    check_rewrite(with_data(line), expected, "MG510")


def test_what_not_all_processes_reach_is_not_waited_for() -> None:
    line = '    if os.path.exists("d"):\n        data = datasets.MNIST("d", download=True)\n'
    check_note(with_data(line), "at the same moment", "MG510")


# ---------------------------------------------------------------- MG501 write-once
def test_one_more_condition_where_only_an_if_writes() -> None:
    lines = """\
    if best or last:
        torch.save(model.state_dict(), "best.pt")
        torch.save(optimizer.state_dict(), "optimizer.pt")
"""
    check_rewrite(
        training(lines, 2),
        'if (best or last) and dist.get_rank() == 0:\n    torch.save(model.state_dict(), "best.pt")',
        "MG501",
    )


def test_an_if_with_an_else_stays_under_a_condition_of_its_own() -> None:
    lines = """\
    if best:
        torch.save(model.state_dict(), "best.pt")
    else:
        print("no better")
"""
    check_rewrite(
        training(lines, 2),
        'if best:\n    if dist.get_rank() == 0:\n        torch.save(model.state_dict(), "best.pt")',
        "MG501",
    )


# ---------------------------------------------------------------- MG511 file-decisions
def test_rank_zero_looks_for_what_the_program_makes() -> None:
    lines = '    if os.path.exists("out"):\n        raise SystemExit("out exists")\n    os.makedirs("out")\n'
    check_rewrite(
        with_data(lines), 'if from_rank_zero(os.path.exists("out")):\n    raise SystemExit("out exists")', "MG511"
    )


def test_what_is_asked_of_the_same_folder_is_asked_at_the_same_moment() -> None:
    lines = '    if os.path.exists("out") and os.listdir("out") and len(data) > 1:\n        raise SystemExit("full")\n    os.makedirs("out")\n'
    check_rewrite(
        with_data(lines), 'if from_rank_zero(os.path.exists("out") and os.listdir("out")) and len(data) > 1:', "MG511"
    )


def test_what_others_made_is_looked_for_by_all() -> None:
    check_noop(with_data('    if not os.path.exists("in"):\n        raise SystemExit("no data")\n'), "MG511")


def test_a_decision_that_nobody_waits_for_stays() -> None:
    check_noop(
        with_data('    if os.path.exists("out"):\n        print("again")\n    os.makedirs("out", exist_ok=True)\n'),
        "MG511",
    )


def test_data_that_one_process_fetched_is_awaited_though_the_others_may_return_before() -> None:
    fetch = """\
def fetch(folder):
    if os.path.exists(folder):
        return
    os.makedirs(folder)
    path = os.path.join(folder, "all.zip")
    urllib.request.urlretrieve("http://example.org", path)
    archive = zipfile.ZipFile(path)
    archive.extractall(folder)


def main():
    fetch("d")"""
    source = (
        training("pass")
        .replace("def main():", fetch)
        .replace("import os\n", "import os\nimport urllib\nimport zipfile\n")
    )
    after = check_rewrite(source, "if from_rank_zero(os.path.exists(folder)):\n    return", "MG511").changes[0].after
    assert after.index("dist.barrier()") < after.index("archive = zipfile") < after.rindex("dist.barrier()")
    assert after.count("dist.barrier()") == 2, "behind the fetching and behind the unpacking"


def test_what_another_class_makes_under_the_same_name_is_not_asked_for_together() -> None:
    classes = """\
class Maker:
    def make(self):
        open(place, "w")


def main():
    if os.path.exists(place):
        raise SystemExit(place)"""
    check_noop(
        training("pass").replace("def main():", classes.replace("open(place", "place = 'x'\n        open(place")),
        "MG511",
    )


def test_a_folder_that_each_process_has_just_made_needs_no_common_answer() -> None:
    lines = """\
    os.makedirs("out", exist_ok=True)
    if not os.path.isdir("out"):
        raise SystemExit("no folder")
"""
    check_noop(with_data(lines), "MG511")


def test_folders_made_the_old_way_need_no_common_answer() -> None:
    lines = """\
    if not os.path.exists("out"):
        try:
            os.makedirs("out")
        except OSError as error:
            if error.errno != 17:
                raise
"""
    check_noop(with_data(lines), "MG511")


CACHE = """\
    if os.path.exists("words.pt"):
        words = torch.load("words.pt")
    else:
        words = ["a", "b"]
        torch.save(words, "words.pt")
"""


def test_all_processes_read_a_cache_or_all_build_it() -> None:
    check_rewrite(
        with_data(CACHE),
        """
        if from_rank_zero(os.path.exists("words.pt")):
            words = torch.load("words.pt")
        else:
            words = ["a", "b"]
            if dist.get_rank() == 0:
                torch.save(words, "words.pt")
        """,
        "MG511",
    )


def test_a_cache_may_be_written_by_a_function() -> None:
    keep = "def build(path):\n    torch.save(['a'], path)\n    return ['a']\n\n\ndef main():"
    lines = """\
    if not os.path.exists(place):
        words = build(place)
    else:
        words = torch.load(place)
"""
    source = with_data("    place = 'words.pt'\n" + lines).replace("def main():", keep)
    check_rewrite(source, "if not from_rank_zero(os.path.exists(place)):", "MG511")


def test_a_file_that_is_only_written_when_missing_is_no_cache() -> None:
    check_noop(with_data(CACHE.replace('torch.load("words.pt")', "[]")), "MG511")


# ---------------------------------------------------------------- MG506 read-after-write
TEST = """\
    if "--test" in os.sys.argv:
        model.module.load_state_dict(torch.load(os.path.join("runs", "best.pt")))
"""


def saving(lines: str) -> str:
    """A program whose function `keep` saves checkpoints, with some lines behind the training."""
    keep = 'def keep(model, folder):\n    torch.save(model.module.state_dict(), folder + "/best.pt")\n\n\ndef main():'
    return training(f"    keep(model, 'runs')\n{lines}", depth=1).replace("def main():", keep)


def test_a_checkpoint_of_this_training_is_awaited_whatever_its_path_is_called() -> None:
    check_rewrite(
        saving(TEST),
        """
        if "--test" in os.sys.argv:
            dist.barrier()
            model.module.load_state_dict(torch.load(os.path.join("runs", "best.pt"), map_location="cpu"))
        """,
        "MG506",
    )


def test_a_file_is_awaited_once_where_it_is_opened() -> None:
    source = training(
        """
        with open("m.pt", "wb") as f:
            torch.save(model.module.state_dict(), f)
        with open("m.pt", "rb") as f:
            model.module.load_state_dict(torch.load(f))
        """,
        depth=1,
    )
    wait = """
        dist.barrier()
        with open("m.pt", "rb") as f:
            model.module.load_state_dict(torch.load(f, map_location="cpu"))
        """
    assert check_rewrite(source, wait, "MG506").changes[0].after.count("dist.barrier()") == 1


def test_what_is_saved_without_training_is_no_checkpoint_to_wait_for() -> None:
    keep = "def build():\n    torch.save(['a'], 'words.pt')\n\n\ndef main():\n    build()\n    torch.load('first.pt')"
    check_noop(training("pass").replace("def main():", keep), "MG506")


def test_a_checkpoint_that_is_read_before_anything_is_saved_is_not_awaited() -> None:
    source = saving("    pass")
    check_noop(source.replace("    keep(model, 'runs')\n", TEST + "    keep(model, 'runs')\n"), "MG506")


@pytest.mark.parametrize(("default", "waits"), [("-1", True), ('int(os.environ.get("LOCAL_RANK", -1))', False)])
def test_an_option_is_equal_everywhere_unless_it_comes_from_the_surroundings(default: str, waits: bool) -> None:
    lines = """\
    import argparse
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=DEFAULT)
    args = parser.parse_args()
    if args.local_rank == -1:
        model.module.load_state_dict(torch.load("best.pt", map_location="cpu"))
"""
    source = saving(lines.replace("DEFAULT", default))
    if waits:
        check_rewrite(source, "if args.local_rank == -1:\n    dist.barrier()", "MG506")
    else:
        check_note(source, "other processes may read", "MG506")


# ---------------------------------------------------------------- MG106 own-rendezvous
def test_the_meeting_point_is_the_launchers() -> None:
    source = training("pass").replace("def main():", 'os.environ["MASTER_PORT"] = "29500"\n\n\ndef main():')
    after = check_rewrite(source, "def main():", "MG106").changes[0].after
    assert "MASTER_PORT" not in after


def test_a_branch_of_the_programs_own_keeps_its_meeting_point() -> None:
    check_noop(with_data('    if "--ddp" in os.sys.argv:\n        os.environ["MASTER_PORT"] = "29500"\n'), "MG106")


# ---------------------------------------------------------------- MG107 launch-scripts
def test_scripts_that_start_the_program_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(training("pass"))
    Path("run.sh").write_text("#!/bin/sh\n\nCUDA_VISIBLE_DEVICES=0,1 python3 -u train.py --lr 1\n")
    Path("eval.sh").write_text("python evaluate.py\npython retrain.py\n")
    found = [d for d in convert_program(Path("train.py"), Options()).diagnostics if d.rule == "MG107"]
    assert [(Path(d.at.path).name, d.at.line) for d in found] == [("run.sh", 3)]


# ---------------------------------------------------------------- MG314 recompute
def test_layers_are_recomputed_in_the_form_that_works() -> None:
    line = "    from torch.utils.checkpoint import checkpoint\n    checkpoint(torch.relu, torch.ones(2))\n"
    check_rewrite(with_data(line), "checkpoint(torch.relu, torch.ones(2), use_reentrant=False)", "MG314")
    check_noop(with_data(line.replace("ones(2))", "ones(2), use_reentrant=True)")), "MG314")


# ---------------------------------------------------------------- what is only said
def test_bfloat16_around_the_call_is_said() -> None:
    source = training("pass").replace(
        "            loss = nn.functional.cross_entropy(model(inputs), targets)\n",
        '            with torch.autocast("cuda", dtype=torch.bfloat16):\n'
        "                loss = nn.functional.cross_entropy(model(inputs), targets)\n",
    )
    check_note(source, "float16", "MG315")
    check_noop(source.replace(", dtype=torch.bfloat16", ""), "MG315")


def test_hooks_outside_the_model_are_said() -> None:
    check_note(training("model.module.register_forward_hook(print)"), "its own share", "MG316")
    check_noop(training("pass"), "MG316")


def test_a_default_of_cuda_is_said_and_keeps_the_batch_whole() -> None:
    conversion = check_note(with_data('    torch.set_default_device("cuda")\n'), "each process's own GPU", "MG317")
    assert conversion.way == "call"
    check_noop(with_data('    torch.set_default_device("cpu")\n'), "MG317")


def test_the_loss_of_a_share_is_said() -> None:
    shown = training("pass").replace(
        "            optimizer.step()\n", "            optimizer.step()\n            print(loss.item())\n"
    )
    check_note(shown, "share of the batch", "MG703")
    check_noop(shown, "MG703", sampling="call")
    check_noop(training("print(epoch)"), "MG703")


def test_gpus_that_the_program_chose_are_said() -> None:
    check_note(
        training("pass").replace("nn.Linear(4, 2))", "nn.Linear(4, 2), device_ids=[0, 1])"),
        "CUDA_VISIBLE_DEVICES=0,1",
        "MG102",
    )


# ---------------------------------------------------------------- others
def test_another_gpu_than_the_first_is_a_question() -> None:
    check_question(with_data("    side = torch.zeros(2).cuda(1)\n"), "meant to live there", "MG311")
    assert not convert(with_data("    side = torch.zeros(2).cuda(0)\n")).questions


def test_a_bound_on_the_time_is_rank_zeros() -> None:
    source = training("if time.time() - start > 3600:\n    break").replace("import os\n", "import os\nimport time\n")
    source = source.replace(DATA, DATA + "    start = time.time()\n")
    check_rewrite(source, "if from_rank_zero(time.time()) - start > 3600:\n    break", "MG504")


def test_what_all_compute_and_one_writes() -> None:
    check_rewrite(
        training('torch.save(model(torch.ones(4, 4)), "out.pt")'),
        'torch.save(model(torch.ones(4, 4)), "out.pt" if dist.get_rank() == 0 else io.BytesIO())',
        "MG501",
    )


def test_what_a_function_writes_is_awaited_before_its_caller_reads_it() -> None:
    keep = "def prepare(path):\n    np.save(path, np.zeros(4))\n\n\ndef main():\n    prepare('t.npy')\n    print(np.load('t.npy'))"
    source = "import numpy as np\n" + training("pass").replace("def main():", keep)
    check_rewrite(source, "prepare('t.npy')\ndist.barrier()\nprint(np.load('t.npy'))", "MG506")


def test_a_data_set_that_gets_a_line_of_its_own_is_made_behind_the_wait_for_its_file() -> None:
    made = "    np.save('t.npy', np.zeros(4))\n    loader = DataLoader(TensorDataset(np.load('t.npy')), batch_size=16, shuffle=True)"
    text = training("pass")
    (line,) = [line for line in text.splitlines() if "DataLoader(data" in line]
    expected = "dist.barrier()\ntrain_set = TensorDataset(np.load('t.npy'))"
    check_rewrite("import numpy as np\n" + text.replace(line, made), expected, "MG506")


def test_a_data_set_that_gets_a_line_of_its_own_keeps_what_other_rules_change_in_it() -> None:
    text = training("pass")
    (line,) = [line for line in text.splitlines() if "DataLoader(data" in line]
    made = "    loader = DataLoader(TensorDataset(torch.tensor(np.zeros(64, np.float))), batch_size=16, shuffle=True)"
    expected = "train_set = TensorDataset(torch.tensor(np.zeros(64, float)))"
    check_rewrite("import numpy as np\n" + text.replace(line, made), expected, "MG009")
