"""Fixed GPUs in files that a program loads by a name which only the run knows: all processes would sit on that GPU."""

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program

PROGRAM = """\
import argparse
import importlib
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--settings", default={default})
    args = parser.parse_args()
    settings = {load}
    data = TensorDataset(torch.randn(64, 4), torch.randint(2, (64,)))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2)).to(settings.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.to(settings.device)), y.to(settings.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
"""
SETTINGS = 'import torch\n\n# not "cuda:0"\ndevice = torch.device("cuda:0")\n'
BY_NAME = "importlib.import_module(args.settings)"


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()

    def run(load: str, files: dict[str, str], default: str = "None") -> Conversion:
        for name, text in {**files, "train.py": PROGRAM.format(load=load, default=default)}.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)
        return convert_program(Path("train.py"), Options())

    return run


def asked(conversion: Conversion) -> list[tuple[str, int]]:
    assert {d.rule for d in conversion.questions} <= {"MG311"}
    return [(d.at.path, d.at.line) for d in conversion.questions]


@pytest.mark.parametrize(
    "load",
    [
        BY_NAME,
        "importlib.import_module(name=args.settings)",
        "__import__(args.settings)",
        "runpy.run_path(args.settings)",
        "importlib.util.spec_from_file_location('settings', args.settings)",
        "exec(open(args.settings).read())",
        "exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'))",
        "exec(pathlib.Path(args.settings).read_text())",
        "mmcv.Config.fromfile(args.settings)",
        "hydra.utils.instantiate(args.settings)",
    ],
)
def test_a_gpu_in_a_file_that_may_be_loaded_is_asked_about_at_its_line(convert, load: str):
    conversion = convert(load, {"settings.py": SETTINGS})
    assert asked(conversion) == [("settings.py", 4)]
    assert "at train.py:14 may load" in conversion.questions[0].message


def test_a_flag_for_a_file_means_files_with_the_function_that_it_calls(convert):
    files = {
        "configs/large.py": "from configs.base import default\n\n\ndef get_config():\n    return default()\n",
        "configs/base.py": 'def default():\n    return {"device": "cuda:0"}\n',
        "other.py": SETTINGS,
    }
    assert asked(convert("config_flags.DEFINE_config_file('config', None)", files)) == [("configs/base.py", 2)]


def test_a_default_is_linked_and_converted(convert):
    conversion = convert(BY_NAME, {"configs/small.py": SETTINGS}, default='"configs.small"')
    assert not conversion.questions
    assert 'torch.device("cuda")' in next(c.after for c in conversion.changes if c.path == "configs/small.py")


@pytest.mark.parametrize(
    ("load", "files"),
    [
        ("settings", {"settings.py": SETTINGS}),
        ('importlib.import_module("torch.cuda")', {"settings.py": SETTINGS}),
        (BY_NAME, {"settings.py": SETTINGS.replace("cuda:0", "cuda")}),
        (BY_NAME, {"settings.py": f"{SETTINGS.rstrip()}  # mgmigrate: ignore[MG311]\n"}),
        (BY_NAME, {"evaluate.py": f"import argparse\n{SETTINGS}"}),
        (BY_NAME, {"show.py": f"from tools import x\n{SETTINGS}print(x)\n", "tools.py": f"x = 1\n{SETTINGS}"}),
        (BY_NAME, {"net.py": 'if __name__ == "__main__":\n    print("cuda:0")\n'}),
        (BY_NAME, {"test_settings.py": SETTINGS}),
    ],
    ids=[
        "nothing is loaded by name",
        "the name is known",
        "no GPU by number",
        "a comment refuses it",
        "a program of its own",
        "what only other programs import",
        "what runs only as a program",
        "a test",
    ],
)
def test_nothing_is_asked_about_other_files(convert, load: str, files: dict[str, str]):
    assert asked(convert(load, files)) == []
