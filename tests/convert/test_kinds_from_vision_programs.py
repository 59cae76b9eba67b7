"""Faults found on public programs of computer vision, each by its kind, in a program of a few lines."""

from pathlib import Path

import pytest

from .test_more_kinds_of_faults import Project, after_main


@pytest.fixture
def project(tmp_path, monkeypatch) -> Project:
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


# ---------------------------------------------------------------- files and folders
def test_an_own_method_called_mkdir_keeps_its_arguments(project):
    project.write(
        "logs.py",
        """
        from pathlib import Path


        class Log:
            def __init__(self):
                self.mkdir()

            def mkdir(self):
                folder = Path("log")
                folder.mkdir()
        """,
    )
    project.train("from logs import Log\n---\nlog = Log()\nprint(log)")
    logs = Path("logs.py").read_text()
    assert "self.mkdir()" in logs and "folder.mkdir(exist_ok=True)" in logs


@pytest.mark.parametrize(
    "reading",
    [
        "import pickle\nrows = pickle.load(open('rows.pkl', 'rb+'))",
        "import json\nwith open('rows.json', 'r+') as file:\n    rows = json.load(file)",
        "file = open('rows.txt', mode='r+')\nrows = file.readlines()\nfile.close()",
    ],
)
def test_a_file_that_may_be_written_and_is_only_read_is_read_by_all(project, reading):
    text, result = project.train(reading + "\nprint(rows)")
    assert "devnull" not in text and text.count("get_rank()") == 0 and not result.questions


def test_a_file_that_is_read_and_written_under_one_name_is_asked_about(project):
    text, result = project.train(
        "import json\nwith open('rows.json', 'r+') as file:\n    rows = json.load(file)\n    file.write('{}')\nprint(rows)"
    )
    assert "devnull" not in text and [q.rule for q in result.questions] == ["MG503"]


# ---------------------------------------------------------------- sets
def test_the_device_of_the_parameters_is_the_process_s_own(project):
    text, result = project.train("place = list(set(p.device for p in model.parameters()))[0]\nprint(place)")
    assert "from_rank_zero" not in text and not result.questions


def test_the_order_of_a_set_is_no_reason_to_wait_while_the_model_runs(project):
    text, result = project.train(
        """\
        class Net(nn.Module):
            def forward(self, x):
                names = list(set(n[:1] for n, _ in self.named_parameters()))
                return x * len(names[0])
        ---
        Net()
        """
    )
    assert "from_rank_zero" not in text and [q.rule for q in result.questions] == ["MG208"]


# ---------------------------------------------------------------- going together
def test_whoever_makes_the_file_all_agree_on_a_new_name_or_none(project):
    project.write(
        "logs.py",
        """
        import os
        import sys
        import time


        class Log:
            def __init__(self, where):
                self.file = open(where, "w")


        def start(folder):
            path = os.path.join(folder, "log.txt")
            if os.path.exists(path):
                path += time.strftime("-%H%M%S")
            sys.stderr = Log(path)
        """,
    )
    project.train("from logs import start\n---\nstart('out')")
    logs = Path("logs.py").read_text()
    assert 'if from_rank_zero(os.path.exists(path)):\n        path += from_rank_zero(time.strftime("-%H%M%S"))' in logs


def test_nobody_waits_for_an_answer_while_rank_zero_fetches_alone(project):
    text, _ = project.train(
        """\
        import pickle
        from reading import fetch
        ---
        if os.path.exists("rows.pkl"):
            with open("rows.pkl", "rb") as file:
                rows = pickle.load(file)
        else:
            rows = fetch("rows", download=True)
            with open("rows.pkl", "wb") as file:
                pickle.dump(rows, file)
        print(rows)
        """
    )
    inside = text.partition("    with rank_zero_first():\n")[2].partition("print(rows)")[0]
    assert 'if os.path.exists("rows.pkl"):' in inside and "from_rank_zero" not in inside


# ---------------------------------------------------------------- reading what rank 0 wrote
LAYERS = """
def train(model):
    for _ in range(2):
        model(torch.randn(4, 2)).sum().backward()
    torch.save(model.state_dict(), "layer" + str(0) + ".pt")


---
for layer in range(3):
    if layer == 0:
        state = torch.load("start.pt", map_location="cpu")
    elif layer == 1:
        state = torch.load("layer" + str(layer - 1) + ".pt", map_location="cpu")
    else:
        state = torch.load("layer" + str(0) + ".pt", map_location="cpu")
    model.load_state_dict(state)
    train(model)
"""


def test_what_the_turn_before_has_saved_is_waited_for_in_every_branch(project):
    text, _ = project.train(LAYERS)
    loads = after_main(text).partition("    for layer")[2].split("state = torch.load")
    assert len(loads) == 4 and all(part.rstrip().endswith("dist.barrier()") for part in loads[1:-1])


def test_nobody_waits_in_each_step_for_features_that_it_reads(project):
    text, _ = project.train(
        """\
        for step in range(9):
            x = torch.load("x.pt", map_location="cpu")
            model(x).sum().backward()
            if step == 8:
                torch.save(model.state_dict(), "last.pt")
        """
    )
    assert "barrier" not in text


def test_both_branches_wait_for_the_file_that_they_read(project):
    text, _ = project.train(
        """\
        with open("rows.txt", "w") as file:
            file.write("1")
        if len("rows") > 3:
            rows = open("rows.txt").read()
        else:
            rows = open("rows.txt").readlines()
        print(rows)
        """
    )
    assert text.count("dist.barrier()\n        rows = open") == 2


# ---------------------------------------------------------------- other programs of the project
TOOL = """
import argparse

import torch


def evaluate(path):
    return torch.load(path, map_location="cpu")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights")
    evaluate(parser.parse_args().weights)
"""


def test_a_program_that_another_imports_still_runs_by_itself(project):
    project.write("evaluate.py", TOOL)
    project.train("import evaluate\n---\ntorch.save(model.state_dict(), 'x.pt')\nevaluate.evaluate('x.pt')")
    assert "    if dist.is_initialized():\n        dist.barrier()" in Path("evaluate.py").read_text()


def test_a_module_that_only_shows_itself_is_no_program(project):
    project.write("evaluate.py", TOOL.partition("    parser")[0] + '    print(evaluate("x.pt"))\n')
    project.train("import evaluate\n---\ntorch.save(model.state_dict(), 'x.pt')\nevaluate.evaluate('x.pt')")
    assert "is_initialized" not in Path("evaluate.py").read_text()


# ---------------------------------------------------------------- logs
@pytest.mark.parametrize("asked", ["writer.log_dir", "writer.get_logdir()", "writer.file_writer.get_logdir()"])
def test_all_processes_use_the_folder_of_the_one_writer(project, asked):
    text, result = project.train(
        f"""\
        writer = SummaryWriter()
        folder = os.path.join({asked}, "weights")
        os.makedirs(folder)
        torch.save(model.state_dict(), os.path.join({asked}, "last.pt"))
        """
    )
    assert f'os.path.join(from_rank_zero({asked} if dist.get_rank() == 0 else None), "weights")' in text
    assert f'torch.save(model.state_dict(), os.path.join({asked}, "last.pt"))' in text and not result.questions


def test_the_folder_of_something_else_than_a_writer_stays(project):
    text, _ = project.train("import argparse\n---\nopt = argparse.Namespace(log_dir='x')\nprint(opt.log_dir)")
    assert "from_rank_zero" not in text


def test_features_that_a_model_computes_are_written_by_one_process(project):
    text, result = project.train(
        """\
        import h5py
        ---
        with h5py.File("features.hdf5", mode="w") as h5:
            rows = h5.create_dataset("rows", [4, 2])
            rows[:] = model(torch.randn(4, 2)).detach().numpy()
        rows = h5py.File("features.hdf5", "r")["rows"]
        print("ready")
        """
    )
    assert 'h5py.File("features.hdf5" if dist.get_rank() == 0 else io.BytesIO(), mode="w") as h5:' in text
    assert text.index("rows[:]") < text.index("dist.barrier()") < text.index('print("ready")') and not result.questions
    assert text.count("dist.barrier()") == 1


def test_a_table_that_is_only_written_is_one_process_s(project):
    text, _ = project.train(
        "import h5py\n---\nwith h5py.File('a.hdf5', 'w') as h5:\n    h5.create_dataset('rows', [4, 2])"
    )
    assert "    if dist.get_rank() == 0:\n        with h5py.File('a.hdf5', 'w') as h5:" in text


def test_a_table_that_is_added_to_is_asked_about(project):
    _, result = project.train("import h5py\n---\nh5 = h5py.File('a.hdf5', 'a')\nrows = h5['rows']\nprint(rows)")
    assert [q.rule for q in result.questions] == ["MG503"]


def test_a_folder_is_made_again_when_it_is_gone(project):
    text, _ = project.train(
        """\
        if os.path.exists("out"):
            if input("remove? ") != "n":
                shutil.rmtree("out")
                os.mkdir("out")
        else:
            os.mkdir("out")
        """
    )
    assert 'if from_rank_zero(os.path.exists("out")):' in text
    assert text.index("shutil.rmtree") < text.index("dist.barrier()") < text.index('os.makedirs("out", exist_ok=True)')


def test_nobody_makes_a_folder_where_a_link_belongs(project):
    text, _ = project.train(
        "if not os.path.exists('log'):\n    os.symlink('/data/log', 'log')\nif not os.path.exists('log'):\n    os.makedirs('log')"
    )
    assert text.index("os.symlink") < text.index("dist.barrier()") < text.index("os.makedirs('log', exist_ok=True)")


# ---------------------------------------------------------------- GPUs
@pytest.mark.parametrize("places", ["{'cuda:%d' % 0: 'cuda:%d' % gpu}", "{'cuda:0': 'cuda:{}'.format(gpu)}"])
def test_a_checkpoint_is_read_to_main_memory_instead_of_from_gpu_to_gpu(project, places):
    text, result = project.train(
        f"gpu = 0\nstate = torch.load('x.pt', map_location={places})\nmodel.load_state_dict(state)"
    )
    assert 'map_location="cpu")' in text and not result.questions


@pytest.mark.parametrize(
    "listing",
    [
        "places = []\nfor one in [0, 1]:\n    place = torch.device('cuda:{}'.format(one))\n    places.append(place)",
        "places = [torch.device(f'cuda:{one}') for one in [0, 1]]",
    ],
)
def test_a_list_of_gpus_is_of_the_process_s_own(project, listing):
    text, _ = project.train(listing + "\nmodel.to(places[0])")
    assert 'torch.device("cuda")' in text and "cuda:" not in after_main(text)


def test_parts_that_are_moved_to_one_gpu_each_stay(project):
    text, _ = project.train("for i, part in enumerate(model.module.children()):\n    part.to(f'cuda:{i}')")
    assert "part.to(f'cuda:{i}')" in text


# ---------------------------------------------------------------- what the program loads by a name that only the run knows
@pytest.mark.parametrize(
    "loading",
    [
        "import importlib\nmodule = importlib.import_module(os.environ['SETTINGS'])",
        "command = 'from settings import ' + os.environ['SETTINGS'] + ' as module'\nexec(command)",
    ],
)
def test_a_wrap_in_a_file_that_may_be_loaded_is_no_reason_to_say_that_there_is_none(project, loading):
    project.write(
        "settings/large.py", "from torch import nn\n\n\ndef run():\n    return nn.DataParallel(nn.Linear(2, 2))\n"
    )
    project.write("train.py", f"import os\n\n{loading}\nprint('done')\n")
    result = project.convert()
    assert [(q.rule, q.at.path) for q in result.questions] == [("MG905", "settings/large.py")]


def test_a_program_that_loads_nothing_so_has_nothing_to_do(project):
    project.write(
        "settings/large.py", "from torch import nn\n\n\ndef run():\n    return nn.DataParallel(nn.Linear(2, 2))\n"
    )
    project.write("train.py", "print('done')\n")
    assert [d.rule for d in project.convert().diagnostics] == ["MG000"]


def test_a_module_that_cannot_be_read_needs_a_person(project):
    project.write("tools.py", "print 'Python 2'\n")
    _, result = project.train("import tools\n---\ntools.save(model)")
    assert [(q.rule, q.at.path) for q in result.questions] == [("MG002", "tools.py")]


@pytest.mark.parametrize(
    "line",
    [
        "handler = logging.FileHandler(\n    os.path.join('out', 'log.txt'))",
        "if os.environ.get('LOG'):\n    handler = logging.FileHandler('log.txt')",
    ],
)
def test_what_a_module_does_while_it_is_imported_works_without_a_process_group(project, line):
    project.write("options.py", f"import logging\nimport os\n\n{line}\n")
    project.train("import options\n---\nprint(options)")
    assert "if not dist.is_initialized() or dist.get_rank() == 0 else os.devnull" in Path("options.py").read_text()


# ---------------------------------------------------------------- what is fetched
def test_nobody_waits_a_second_time_behind_what_is_fetched_in_turn(project):
    text, _ = project.train(
        """\
        import sys
        from urllib.request import urlretrieve
        ---
        if not os.path.exists("net.pt"):
            sys.stderr.write("fetching")
            urlretrieve("http://x/net.pt", "net.pt")
        state = torch.load("net.pt", map_location="cpu")
        model.load_state_dict(state)
        """
    )
    assert "    with rank_zero_first():\n" in text and "barrier()" not in after_main(text)


def test_a_fetching_helper_that_is_only_run_in_turn_is_no_question(project):
    project.write(
        "web.py",
        """
        from urllib.request import urlretrieve


        def fetch(url, where):
            name, _ = urlretrieve(url, where)
            print(name)
        """,
    )
    text, result = project.train(
        """\
        import tarfile
        from web import fetch
        ---
        if not os.path.exists("data"):
            fetch("http://x/data.tar", "data.tar")
            tar = tarfile.open("data.tar")
            tar.extractall()
        """
    )
    assert "    with rank_zero_first():\n" in text and not result.questions


def test_what_an_old_opener_retrieves_is_fetched_once(project):
    text, _ = project.train(
        """\
        from urllib.request import URLopener
        ---
        opener = URLopener()
        opener.retrieve("http://x/data.tar", "data.tar")
        print("there")
        """
    )
    assert text.index("if dist.get_rank() == 0:\n        opener.retrieve") < text.index("dist.barrier()")


DATA = """
import os
import tarfile
from urllib.request import urlretrieve


class Data:
    def __init__(self, root):
        self.root = root
        self.fetch()

    def fetch(self):
        if os.path.exists(os.path.join(self.root, "images")):
            return
        name, _ = urlretrieve("http://x/data.tar", "data.tar")
        tar = tarfile.open(name)
        tar.extractall(self.root)
        tar.close()
"""


def test_processes_go_one_after_another_through_a_function_that_returns_early(project):
    project.write("data.py", DATA)
    _, result = project.train("from data import Data\n---\nprint(Data('x'))")
    data = Path("data.py").read_text()
    assert "        with rank_zero_first():\n            self.fetch()\n" in data and "get_rank" not in data
    assert not result.questions


def test_a_function_that_names_by_the_clock_what_it_fetches_is_not_gone_through_in_turn(project):
    project.write(
        "data.py",
        DATA.replace(
            "name, _ = url", "stamp = time.strftime('%H')\n        os.mkdir(stamp)\n        name, _ = url"
        ).replace("import os", "import os\nimport time"),
    )
    project.train("from data import Data\n---\nprint(Data('x'))")
    assert "rank_zero_first" not in Path("data.py").read_text()


# ---------------------------------------------------------------- small diffs
def test_where_a_tensor_is_needs_no_change(project):
    text, _ = project.train("x = torch.ones(2).cuda()\ny = torch.ones(2).cuda(x.get_device())\nprint(y)")
    assert "torch.ones(2).cuda(x.get_device())" in text


def test_a_call_without_its_only_argument_closes_on_its_line(project):
    text, _ = project.train("gpu_ids = [0]\nx = torch.ones(2).cuda(\n    gpu_ids[0])\nprint(x)")
    assert "torch.ones(2).cuda()\n" in text


def test_parts_of_a_wrapped_model_in_groups_are_kept_alike_by_the_wrap(project):
    text, _ = project.train(
        """\
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.body, self.head = nn.Linear(2, 2), nn.Linear(2, 2)

            def forward(self, x):
                return self.head(self.body(x))


        def optimizer_of(model):
            optimizer = torch.optim.SGD([{"params": model.module.body.parameters()}, {"params": model.module.head.parameters(), "lr": 1}], lr=0.1)
            return optimizer
        ---
        optimizer = optimizer_of(model)
        optimizer.step()
        """,
        wrap="nn.DataParallel(Net())",
    )
    assert "keep_alike" not in text


def test_a_time_that_is_spelled_in_one_of_several_ways_is_each_process_s_own(project):
    text, _ = project.train(
        """\
        def spelled(seconds):
            seconds = int(time.time() - seconds)
            if seconds > 60:
                return "%d min" % (seconds // 60)
            return f"{seconds} s"
        ---
        start = time.time()
        print(spelled(start))
        """
    )
    assert "from_rank_zero" not in after_main(text).partition("__main__")[0] and "= int(time.time() - seconds)" in text


def test_a_cache_that_rank_zero_has_looked_for_is_read_without_a_word(project):
    text, result = project.train(
        """\
        if not os.path.exists("rows.pt"):
            rows = [1, 2]
            torch.save(rows, "rows.pt")
        else:
            rows = torch.load("rows.pt", map_location="cpu")
        print(rows)
        """
    )
    assert 'if not from_rank_zero(os.path.exists("rows.pt")):' in text
    assert "MG506" not in [d.rule for d in result.diagnostics]
