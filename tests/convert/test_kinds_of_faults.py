"""Faults found on public training programs, each by its kind, in a program of a few lines.

Every conversion is checked to parse and to change nothing the second time.
"""

import ast
from pathlib import Path
from textwrap import dedent

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.write.files import encoded

STEP = """
    model(torch.randn(4, 2)).sum().backward()
"""


class Files:
    """A project on disk, converted from one of its files."""

    def __init__(self, folder: Path):
        self.folder = folder
        (folder / ".git").mkdir()

    def __call__(self, entry: str = "train.py", **files: str) -> Conversion:
        for name, text in files.items():
            path = self.folder / (name.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        options = Options(sampling="call")
        first = convert_program(Path(entry), options)
        for change in first.changes:
            ast.parse(change.after)
            Path(change.path).write_bytes(encoded(change))
        assert not convert_program(Path(entry), options).changes, "a second run must change nothing"
        return first

    def read(self, name: str = "train.py") -> str:
        return (self.folder / name).read_text()


@pytest.fixture
def files(tmp_path, monkeypatch) -> Files:
    monkeypatch.chdir(tmp_path)
    return Files(tmp_path)


def program(body: str, head: str = "", wrap: str = "model = nn.DataParallel(model)") -> str:
    """A training script with lines of its own above `main` and in it."""
    lines = [f"    {line}" if line else "" for line in dedent(body).strip("\n").splitlines()]
    main = [
        "def main():",
        "    model = nn.Linear(2, 2)",
        f"    {wrap}",
        "    model(torch.randn(4, 2)).sum().backward()",
    ]
    top = ["import os", "import torch", "from torch import nn", *dedent(head).strip("\n").splitlines()]
    return "\n".join([*top, "", "", *main, *lines, "", "", 'if __name__ == "__main__":', "    main()", ""])


def levels(conversion: Conversion, rule: str) -> list[str]:
    return [d.level for d in conversion.diagnostics if d.rule == rule]


# ---------------------------------------------------------------- which files and functions belong to the program
def test_a_file_called_like_a_package_on_the_way_is_not_taken_for_it(files):
    files(
        "small/train.py",
        small__train=program("log('x')", "from tools.notes import log"),
        small__small=program("torch.save(model, 'other.pt')"),
        small__tools____init__="from .notes import log\n",
        small__tools__notes="""\
            def log(text):
                with open("notes.txt", "a") as file:
                    file.write(text)
            """,
    )
    assert "get_rank" in files.read("small/tools/notes.py")
    assert "get_rank" not in files.read("small/small.py")


def test_what_only_another_script_runs_is_left_to_its_own_conversion(files):
    files(
        train=program("fit(model)", "from other import fit"),
        other="""\
            import torch
            from torch import nn

            def fit(model):
                torch.save(model.state_dict(), "fit.pt")

            def main():
                model = nn.DataParallel(nn.Linear(2, 2))
                torch.save(model.state_dict(), "other.pt")

            if __name__ == "__main__":
                main()
            """,
    )
    text = files.read("other.py")
    assert "nn.DataParallel(nn.Linear(2, 2))" in text
    assert text.count("get_rank") == 1


# ---------------------------------------------------------------- wraps
def test_a_subclass_with_parameters_of_its_own_takes_its_module_behind_them(files):
    done = files(
        train=program("", "from parts import Uneven", wrap="model = Uneven(1, model, dim=1)"),
        parts="""\
            from torch.nn import DataParallel

            class Uneven(DataParallel):
                def __init__(self, first, *args, **kwargs):
                    self.first = first
                    super().__init__(*args, **kwargs)

                def scatter(self, inputs, kwargs, device_ids):
                    sizes = [self.first, 3]
                    return [tuple(t[:1] for t in inputs), tuple(t[1:sizes[1]] for t in inputs)], [kwargs, kwargs]
            """,
    )
    assert "SplitDataParallel(model, dim=1)" in files.read()
    assert "note" in levels(done, "MG302")


def test_a_guard_that_keeps_a_program_off_the_gpu_stays(files):
    files(train=program("", "use_gpu = torch.cuda.is_available()", "if use_gpu: model = nn.DataParallel(model).cuda()"))
    assert "if use_gpu:" in files.read()


def test_a_guard_goes_when_both_branches_move_the_model(files):
    wrap = "model = nn.DataParallel(model).cuda() if torch.cuda.device_count() > 1 else model.cuda()"
    files(train=program("", wrap=wrap))
    assert "device_count" not in files.read()


def test_the_question_whether_there_is_a_gpu_is_not_the_number_of_processes(files):
    files(train=program("x = torch.ones(2)\nx = x.cuda() if torch.cuda.device_count() >= 1 else x"))
    assert "torch.cuda.device_count() >= 1" in files.read()


def test_a_flag_that_must_hold_is_named(files):
    head = "import argparse\nargs = argparse.ArgumentParser().parse_args()"
    wrap = "model = nn.DataParallel(model) if 0 else model"
    body = "if args.several_gpus:\n    model = nn.DataParallel(model)\n    model.train()\n    print(len(list(model.parameters())))"
    done = files(train=program(body, head, wrap="pass"))
    assert wrap
    assert any("args.several_gpus" in d.message for d in done.diagnostics if d.level == "note")


# ---------------------------------------------------------------- start and end
def test_processes_meet_before_a_seed_that_is_set_above_main(files):
    files(train=program("", "import random\nseed = random.randint(1, 9)\ntorch.manual_seed(seed)"))
    text = files.read()
    assert text.index('if __name__ == "__main__":\n    setup_distributed()') < text.index("random.randint(1, 9)")


def test_processes_part_before_the_program_ends_itself(files):
    text = program("").replace("    main()\n", "    sys.exit(main())\n").replace("import os", "import os\nimport sys")
    files(train=text)
    assert "status = main()\n    dist.destroy_process_group()\n    sys.exit(status)" in files.read()


def test_a_text_between_options_does_not_move_the_start_up(files):
    text = program("").replace(
        "    main()\n",
        "    parser = argparse.ArgumentParser()\n    '''data'''\n    parser.add_argument('--x')\n    args = parser.parse_args()\n    main()\n",
    )
    files(train=text.replace("import os", "import argparse\nimport os"))
    assert files.read().index("parse_args()") < files.read().rindex("setup_distributed()")


# ---------------------------------------------------------------- files
def test_a_checkpoint_is_not_loaded_to_the_gpu_that_it_came_from(files):
    files(train=program("state = torch.load('start.pt')\nmodel.load_state_dict(state['model'])"))
    assert "torch.load('start.pt', map_location=\"cpu\")" in files.read()


def test_a_cache_of_data_is_loaded_as_it_was(files):
    files(train=program("numbers = torch.load('numbers.pt')\nprint(numbers.sum())"))
    assert "torch.load('numbers.pt')" in files.read()


def test_others_wait_for_a_file_that_is_read_back(files):
    body = """
    path = os.path.join("out", "best.pt")
    torch.save(model.state_dict(), path)
    model.load_state_dict(torch.load(path, map_location="cpu"))
    """
    files(train=program(body))
    assert "dist.barrier()\n    model.load_state_dict(torch.load(path" in files.read()


def test_a_path_that_is_only_shown_is_no_reading(files):
    files(train=program("path = 'last.pt'\ntorch.save(model.state_dict(), path)\nprint(path)"))
    assert "barrier" not in files.read()


def test_what_is_written_to_memory_is_everybodys_own(files):
    files(train=program("buffer = io.BytesIO()\ntorch.save(model.state_dict(), buffer)", "import io"))
    assert "get_rank() == 0" not in files.read().partition("def main")[2]


def test_a_temporary_file_is_everybodys_own(files):
    body = "with tempfile.NamedTemporaryFile() as file:\n    torch.save(model.state_dict(), file.name)"
    files(train=program(body, "import tempfile"))
    assert "from_rank_zero(" not in files.read()


def test_a_path_object_that_is_opened_to_write_is_written_once(files):
    body = "with pathlib.Path('settings.json').open('wt') as file:\n    json.dump({}, file)"
    files(train=program(body, "import json\nimport pathlib"))
    assert "    if dist.get_rank() == 0:\n        with pathlib.Path" in files.read()


def test_a_folder_that_must_be_new_is_made_by_one_process(files):
    body = (
        "fresh = len(os.environ) > 3\nos.makedirs('runs', exist_ok=not fresh)\nos.makedirs('logs', exist_ok=not fresh)"
    )
    files(train=program(body))
    text = files.read().partition("def main")[2]
    assert text.count("if dist.get_rank() == 0:") == 1
    assert text.index("'logs'") < text.index("dist.barrier()")


def test_a_folder_that_may_be_there_already_needs_nothing(files):
    head = "import errno"
    body = """
    try:
        os.makedirs("out")
    except OSError as error:
        if error.errno != errno.EEXIST:
            raise
    """
    files(train=program(body, head))
    assert 'os.makedirs("out")' in files.read()


def test_the_next_number_of_a_run_is_found_by_one_process(files):
    body = """
    runs = sorted(glob.glob("run_*"))
    number = int(runs[-1][4:]) + 1 if runs else 0
    folder = "run_%d" % number
    os.makedirs(folder)
    """
    files(train=program(body, "import glob"))
    assert 'sorted(from_rank_zero(glob.glob("run_*")))' in files.read()


def test_a_list_of_images_is_not_shared(files):
    files(
        train=program(
            "for name in glob.glob('*.png'):\n    print(name)\nos.makedirs('out', exist_ok=True)", "import glob"
        )
    )
    assert "from_rank_zero" not in files.read()


def test_a_whole_wrapped_model_in_a_file_stays_a_dataparallel(files):
    done = files(train=program("torch.save({'model': model, 'epoch': 1}, 'all.pt')"))
    assert levels(done, "MG601") == ["fix"]
    assert "torch.save({'model': nn.DataParallel(model.module), 'epoch': 1}, 'all.pt')" in files.read()


# ---------------------------------------------------------------- what is shown
def test_one_process_logs(files):
    files(train=program("logging.info('start')", "import logging"))
    assert "if dist.get_rank() != 0:\n        logging.disable(logging.WARNING)" in files.read()


def test_handlers_that_are_set_up_from_a_file_write_once(files):
    files(train=program("logging.config.dictConfig({'version': 1})", "import logging.config"))
    assert "if dist.get_rank() == 0:\n        logging.config.dictConfig" in files.read()


def test_one_process_shows_the_progress(files):
    files(train=program("for i in tqdm(range(3)):\n    pass", "from tqdm import tqdm"))
    assert "tqdm(range(3), disable=dist.get_rank() != 0)" in files.read()


# ---------------------------------------------------------------- other branches and other parameters
def test_a_branch_for_several_processes_of_the_programs_own_is_named(files):
    body = "if args.rank_count > 1:\n    torch.distributed.init_process_group('nccl')"
    head = "import argparse\nimport torch.distributed\nargs = argparse.ArgumentParser().parse_args()"
    done = files(train=program(body, head))
    assert levels(done, "MG103") == ["note"]


def test_a_head_beside_the_wrapped_part_is_kept_alike(files):
    text = """\
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = nn.Linear(2, 2), nn.Linear(2, 1)

            def forward(self, x):
                return self.head(self.body(x))

        def main():
            net = Net()
            net.body = nn.DataParallel(net.body)
            optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
            net(torch.randn(4, 2)).sum().backward()
            optimizer.step()

        if __name__ == "__main__":
            main()
        """
    files(train=text)
    assert "lr=0.1)\n    keep_alike(optimizer)" in files.read()


def test_parameters_inside_the_wrapped_model_need_nothing_more(files):
    files(train=program("optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\noptimizer.step()"))
    assert "keep_alike" not in files.read()


def test_a_call_that_replaces_how_replicas_are_made_goes(files):
    files(
        train=program("connect(model)", "from sync import connect"),
        sync="""\
            def connect(wrapper):
                make = wrapper.replicate
                wrapper.replicate = lambda *args: make(*args)
            """,
    )
    assert "connect(model)" not in files.read()


# ---------------------------------------------------------------- the converter itself
def test_names_that_depend_on_each_other_are_resolved_in_no_time(files):
    steps = "\n".join(f"x = model.view(x) if x else x.step{i}(x)" for i in range(40))
    parts = "class Part:\n    def view(self, x):\n        return x\n" + "".join(
        f"    def step{i}(self, x):\n        return self.view(x)\n" for i in range(40)
    )
    files(train=program("x = Part()\n" + steps, parts))
    assert "SplitDataParallel" in files.read()
