"""Converted notebooks: what moves into the launched function, what stays, what is said, and that it trains on two processes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from . import notebooks

FORMS = ["ddp", "accelerate"]
MAIN = """\
def main(epochs=2):
    loader = DataLoader(data, batch_size=64, shuffle=True)
    model = nn.DataParallel(Net())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        for inputs, targets in loader:
            loss = nn.functional.cross_entropy(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.state_dict(), "model.pt")"""
RUN = """\
import json, os, sys
import torch
import torch.distributed as dist
join = dist.init_process_group
def counted(*words, **more):
    join(*words, **more)
    with open("joined.txt", "a") as stream:
        stream.write(f"{dist.get_rank()} of {dist.get_world_size()}\\n")
dist.init_process_group = counted
here = os.getcwd()
for folder in sys.argv[1:]:
    os.chdir(os.path.join(here, folder))
    sys.path[:0] = [os.getcwd()]
    scope = {"__name__": "__main__"}
    for number, cell in enumerate(json.load(open("train.ipynb"))["cells"], 1):
        lines = "".join(cell["source"]).splitlines(True) if cell["cell_type"] == "code" else []
        python = "".join(line for line in lines if not line.startswith(("%", "!", "import matplotlib", "plt.")))
        exec(compile(python, f"cell {number}", "exec"), scope)
    sys.path.pop(0)
    sys.modules.pop("ddp_utils", None)
"""


@pytest.fixture
def notebook(tmp_path) -> Path:
    path = tmp_path / "train.ipynb"
    path.write_text(notebooks.text())
    return path


def changed(cli, path: Path, *words: str) -> list[str]:
    """The sources of all cells after `--write`; a second run finds nothing to do."""
    before = json.loads(path.read_text())
    done = cli("convert", path.name, "--write", *words)
    assert done.code in (0, 3), done.stderr
    after = json.loads(path.read_text())
    for old, new in zip(before["cells"], after["cells"], strict=True):
        assert {**old, "source": ""} == {**new, "source": ""}
    assert cli("convert", path.name, "--check", *words).stdout == b""
    return notebooks.sources(path.read_text())


@pytest.mark.parametrize("form", FORMS)
def test_what_every_process_runs_is_one_function_in_the_last_cell(cli, notebook, form):
    cells = changed(cli, notebook, "--to", form)
    assert cells[3] == notebooks.CELLS[3]  # data and its picture stay
    assert cells[4] == notebooks.NET
    assert cells[5] == "# moved into training_function(), below"
    assert cells[6].startswith("%%time\n")
    assert "\n\n\ndef training_function():\n" in cells[6]
    assert cells[6].endswith("\n\n\nnotebook_launcher(training_function, num_processes=torch.cuda.device_count())")
    body = cells[6].partition("training_function():\n")[2].partition("\n\n\n")[0].splitlines()
    assert all(line.startswith("    ") or not line for line in body)
    assert "    # as many GPUs as there are" in body
    assert cells[1].splitlines()[:2] == notebooks.IMPORTS.splitlines()[:2]
    imported = [line for line in cells[1].splitlines() if line.startswith("from accelerate import ")]
    assert [line.endswith("notebook_launcher") for line in imported] == [True]


@pytest.mark.parametrize("form", FORMS)
def test_the_diff_is_by_cell_with_rules_and_without_escapes(cli, notebook, form):
    done = cli("convert", "train.ipynb", "--to", form)
    assert done.code == 0, done.stderr
    text = done.text
    assert "--- a/train.ipynb:cell 7" in text
    assert "--- a/train.ipynb:cell 4" not in text
    assert "\\n" not in text.partition("ddp_utils.py")[0]
    assert "mgmigrate" not in text
    heads = [line for line in text.splitlines() if line.startswith("@@")]
    assert heads
    assert all("@@ MG" in line for line in heads)
    assert "MG111 launch-function" in done.stderr
    assert re.search(r"train\.ipynb:cell [36]:\d: MG111", done.stderr)
    assert "run all cells of train.ipynb in a fresh kernel" in done.stderr


def test_json_has_cells_as_files(cli, notebook):
    (program,) = json.loads(cli("convert", "train.ipynb", "--format", "json").stdout)["programs"]
    paths = [file["path"] for file in program["files"]]
    assert "train.ipynb:cell 7" in paths
    assert all(hunk["rules"] for file in program["files"] for hunk in file["hunks"])


@pytest.mark.parametrize("form", FORMS)
def test_a_function_that_trains_is_called_in_the_launched_one(cli, notebook, form):
    notebook.write_text(notebooks.text([notebooks.IMPORTS, notebooks.DATA, notebooks.NET, MAIN, "main(3)"]))
    cells = changed(cli, notebook, "--to", form, "--nproc", "4")
    assert "    main(3)\n" in cells[4]
    assert cells[4].endswith("notebook_launcher(training_function, num_processes=4)")
    assert "DataParallel(Net" not in cells[3].replace("DistributedDataParallel(Net", "")


def test_names_that_functions_share_stay_global(cli, notebook):
    step = "def step(inputs, targets):\n    return criterion(model(inputs), targets)"
    loop = notebooks.LOOP.replace("criterion(model(inputs), targets)", "step(inputs, targets)")
    cells = changed(cli, _write(notebook, step, notebooks.MODEL, loop))
    assert "    global criterion, model\n" in cells[-1]


def test_the_device_is_chosen_in_the_launched_function(cli, notebook):
    choice = 'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")\nprint("using", device)'
    model = notebooks.MODEL.replace("Net())", "Net()).to(device)")
    path = notebook
    path.write_text(notebooks.text([notebooks.IMPORTS, choice, notebooks.DATA, notebooks.NET, model, notebooks.LOOP]))
    cells = changed(cli, path)
    assert cells[1] == "# moved into training_function(), below"
    assert "torch.device(" in cells[-1]
    assert cells[2] == notebooks.DATA or "shuffle" not in cells[2]


def test_cells_that_show_what_training_made_are_asked_about(cli, notebook):
    path = _write(
        notebook, notebooks.MODEL, "history = []", notebooks.LOOP + "\nhistory.append(1)", "plt.plot(history)", "model"
    )
    done = cli("convert", path.name)
    assert done.code == 3
    asked = [line for line in done.stderr.splitlines() if "MG111 launch-function: this shows" in line]
    assert [line.split(": MG111")[0].strip() for line in asked] == ["train.ipynb:cell 7:1", "train.ipynb:cell 8:1"]
    assert "`history`" in asked[0] and "`model`" in asked[1]
    assert changed(cli, path)[-2:] == ["plt.plot(history)", "model"]


def test_later_cells_that_go_on_with_the_model_go_along(cli, notebook):
    cells = changed(cli, _write(notebook, notebooks.MODEL, notebooks.LOOP, "best = loss.item()", "print(best)"))
    assert cells[-1].startswith("def training_function")
    assert "    best = loss.item()\n    print(best)\n" in cells[-1]


def test_strings_of_several_lines_are_not_indented(cli, notebook):
    model = notebooks.MODEL + '\nnote = f"""\na {1 + 1}\n  b\n"""'
    assert '    note = f"""\na {1 + 1}\n  b\n"""\n' in changed(cli, _write(notebook, model, notebooks.LOOP))[-1]


def test_a_timed_statement_loses_its_magic_and_says_so(cli, notebook):
    path = notebook
    path.write_text(notebooks.text([notebooks.IMPORTS, notebooks.DATA, notebooks.NET, MAIN, "%time main(3)"]))
    assert "magics in front of statements (`%time`) went" in cli("convert", path.name).stderr
    assert "    main(3)\n" in changed(cli, path)[-1]


def test_data_parallel_in_a_cell_that_is_no_python_is_asked_about(cli, notebook):
    path = _write(notebook, notebooks.MODEL, notebooks.LOOP, "%%writefile other.py\nmodel = nn.DataParallel(model)")
    done = cli("convert", path.name)
    assert done.code == 3
    assert "train.ipynb:cell 6:1: MG111 launch-function: this names DataParallel and is not Python" in done.stderr


def test_a_notebook_in_which_there_is_nothing_to_do(cli, notebook):
    notebook.write_text(notebooks.text(["%env", "print(1)"]))
    before = notebook.read_bytes()
    done = cli("convert", "train.ipynb", "--write")
    assert (done.code, done.stdout) == (0, b"")
    assert "nothing to do" in done.stderr
    assert notebook.read_bytes() == before


def test_a_notebook_that_only_evaluates_drops_the_wrapper_and_launches_nothing(cli, notebook):
    path = _write(
        notebook, "model = nn.DataParallel(Net())", "with torch.no_grad():\n    print(model(data.tensors[0]).sum())"
    )
    cells = changed(cli, path)
    assert cells[3] == "model = Net()"
    assert not any("notebook_launcher" in cell for cell in cells)


@pytest.mark.parametrize("how", [[], ["--write"], ["--output", "out"]], ids=" ".join)
def test_a_syntax_error_in_a_cell_is_one_line_with_the_cell(cli, notebook, how):
    notebook.write_text(notebooks.text([*notebooks.CELLS, "def f(:\n    pass"]))
    done = cli("convert", "train.ipynb", *how)
    assert done.code == 4
    assert done.stderr.splitlines()[0].startswith("mgmigrate: train.ipynb:cell 8:1:7: cannot be parsed: ")
    assert not done.stdout


def test_notebooks_in_a_tree_are_found(cli, notebook, tmp_path):
    (tmp_path / "plain.ipynb").write_text(notebooks.text(["print(1)"]))
    (tmp_path / ".ipynb_checkpoints").mkdir()
    (tmp_path / ".ipynb_checkpoints" / "train-checkpoint.ipynb").write_text(notebooks.text())
    done = cli("scan", ".")
    assert [line.split()[0] for line in done.text.splitlines()] == ["program", "train.ipynb"]
    assert cli("convert", ".", "--check").code == 1


def test_verify_says_that_it_runs_no_notebooks(cli, notebook):
    done = cli("verify", "train.ipynb")
    assert done.code == 3
    assert "train.ipynb: is a notebook" in done.stderr


def _write(path: Path, *cells: str) -> Path:
    path.write_text(notebooks.text([notebooks.IMPORTS, notebooks.DATA, notebooks.NET, *cells]))
    return path


def test_both_forms_train_on_two_processes_as_the_original_trains_on_one(cli, notebook, tmp_path):
    import torch

    def weights(path: Path) -> dict:
        return {name.removeprefix("module."): value for name, value in torch.load(path).items()}

    for form in FORMS:
        assert cli("convert", "train.ipynb", "--to", form, "--nproc", "2", "--output", form).code == 0
    env = {**os.environ, "OMP_NUM_THREADS": "1", "ACCELERATE_USE_CPU": "true", "CUDA_VISIBLE_DEVICES": ""}
    words = [sys.executable, "-c", RUN, ".", *FORMS]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    wanted = weights(tmp_path / "model.pt")
    assert not (tmp_path / "joined.txt").exists()
    for form in FORMS:
        joined = (tmp_path / form / "joined.txt").read_text().splitlines()
        assert sorted(joined) == ["0 of 2", "1 of 2"], form
        found = weights(tmp_path / form / "model.pt")
        assert found.keys() == wanted.keys()
        for name in wanted:
            torch.testing.assert_close(found[name], wanted[name], msg=f"{form} {name}")
