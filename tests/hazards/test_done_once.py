"""What is written once: trackers with a mode of their own, scratch files, and what the workers of a loader do."""

import pytest

from tests.rules.tools import check_noop, check_question, check_rewrite, convert, training

IMPORTS = "import os\nimport subprocess\nimport tarfile\nimport tempfile\nimport wandb\nimport numpy as np\n"


def program(lines: str, depth: int = 1) -> str:
    return training(lines, depth=depth).replace("import os\n", IMPORTS)


@pytest.mark.parametrize(
    ("call", "after"),
    [
        ("wandb.init(mode='offline')", "wandb.init(mode='offline' if dist.get_rank() == 0 else \"disabled\")"),
        ("wandb.init(name='a')", "wandb.init(name='a', mode=None if dist.get_rank() == 0 else \"disabled\")"),
        ("wandb.init(**told)", 'wandb.init(**(told if dist.get_rank() == 0 else {**told, "mode": "disabled"}))'),
    ],
)
def test_a_tracker_keeps_its_own_mode_on_rank_0(call, after):
    check_rewrite(program(f"told = {{'mode': 'offline'}}\n{call}"), after, "MG503")


def test_a_folder_and_its_parents_move_once():
    check_rewrite(
        program("os.renames('last', 'old/last')"),
        "if dist.get_rank() == 0:\n    os.renames('last', 'old/last')",
        "MG501",
    )


@pytest.mark.parametrize(
    "lines",
    [
        "handle, path = tempfile.mkstemp()\nos.close(handle)\nnp.savetxt(path, rows)\nos.remove(path)",
        "with tempfile.NamedTemporaryFile() as file:\n    path = file.name\n    command = 'sox a {}'.format(path)\n    os.system(command)",
        "with tempfile.TemporaryDirectory() as folder:\n    np.save(os.path.join(folder, 'a.npy'), rows)",
    ],
)
def test_every_process_has_its_own_scratch_file(lines):
    text = program("rows = [1.0]\n" + lines)
    for rule in ("MG501", "MG503", "MG504", "MG506"):
        check_noop(text, rule)


def test_workers_of_a_loader_wait_for_no_process():
    own = """
class Items(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return self.read("%d.wav" % i)

    def read(self, name):
        os.system("sox a.flac " + name)
        os.remove(name)
        return torch.zeros(4), 0


def main():
"""
    text = (
        program("")
        .replace("\ndef main():\n", own)
        .replace("data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))", "data = Items()")
    )
    done = check_question(text, "workers of every process run this os.system", "MG501", sampling="call")
    assert '        os.system("sox a.flac " + name)\n        os.remove(name)\n' in done.changes[0].after


def test_a_data_set_that_rank_0_prepares_first_meets_nobody_inside():
    own = """
class Images(torch.utils.data.Dataset):
    def __init__(self, download=False):
        if download:
            tarfile.open("a.tar").extractall("a")
            tarfile.open("b.tar").extractall("b")

    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.zeros(4), 0


def main():
"""
    text = (
        program("")
        .replace("\ndef main():\n", own)
        .replace("data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))", "data = Images(download=True)")
    )
    done = check_rewrite(text, "    with rank_zero_first():\n        data = Images(download=True)", "MG510")
    inside = done.changes[0].after.partition("class Images")[2].partition("def main")[0]
    assert "barrier" not in inside


def test_a_file_that_a_comprehension_reads_is_removed_after_it():
    check_rewrite(
        program(
            "with open('rows.txt', 'w') as file:\n    file.write('a')\nrows = [line for line in open('rows.txt')]\nos.remove('rows.txt')"
        ),
        "dist.barrier()\nif dist.get_rank() == 0:\n    os.remove('rows.txt')",
        "MG506",
    )


def test_rank_0_says_whether_a_run_goes_on_where_its_folder_is_made_otherwise():
    text = "if os.path.exists('run'):\n    start = 1\nelse:\n    os.makedirs('run')\n    start = 0\n    os.system('cp a.yml run')"
    done = check_rewrite(program(text), "if from_rank_zero(os.path.exists('run')):\n    start = 1\nelse:", "MG511")
    assert "rank_zero_first" not in done.changes[0].after


def test_a_folder_that_is_only_said_to_be_there_is_asked_for_by_all():
    check_noop(program("if os.path.exists('run'):\n    print('there')\nelse:\n    os.makedirs('run')"), "MG511")


FLAT = """\
import argparse
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

args = argparse.ArgumentParser().parse_args()
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 4))
model = nn.Linear(4, 2)
import os

loader = DataLoader(data, batch_size=16, shuffle=True)
model = nn.DataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for (x,) in loader:
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
os.getcwd()
sys.stdout.write("done")
"""


def test_what_the_first_lines_need_is_imported_above_them():
    after = convert(FLAT, target="accelerate").changes[0].after
    assert "import os" in after[: after.index("os.devnull")]
