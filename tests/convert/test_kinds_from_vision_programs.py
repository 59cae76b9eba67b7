"""Faults found on public programs of computer vision, each by its kind, in a program of a few lines."""

from pathlib import Path

import pytest

from .test_more_kinds_of_faults import Project


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
