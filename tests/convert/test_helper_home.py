"""The module of helpers lies where every program that imports a converted module finds it."""

from __future__ import annotations

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program

TRAIN = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
{imports}


def main():
    loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=16, shuffle=True)
    model = nn.DataParallel(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for (x,) in loader:
            loss = model(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        save(model)


if __name__ == "__main__":
    main()
"""
SAVE = """\
from torch.utils.tensorboard import SummaryWriter


def save(model):
    SummaryWriter("runs").add_text("model", str(model))
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()

    def convert(
        entry: str, imports: str, *modules: str, packages: tuple[str, ...] = ()
    ) -> tuple[Conversion, dict[str, str]]:
        files = {entry: TRAIN.format(imports=imports), **dict.fromkeys(modules, SAVE)}
        files |= {f"{package}/__init__.py": "" for package in packages}
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        done = convert_program(Path(entry), Options())
        return done, {change.path: change.after for change in done.changes}

    return convert


def test_a_package_of_another_folder_has_them_inside(tree):
    _, texts = tree("scripts/train.py", "from lib.io import save", "lib/io.py", packages=("lib",))
    assert "lib/ddp_utils.py" in texts
    assert "from lib.ddp_utils import NoWriter" in texts["lib/io.py"]
    assert "from lib.ddp_utils import" in texts["scripts/train.py"]


def test_a_package_in_a_folder_of_sources_has_them_inside(tree):
    imports = "import sys\n\nsys.path.insert(0, 'src')\nfrom lib.deep.io import save"
    _, texts = tree("scripts/train.py", imports, "src/lib/deep/io.py", packages=("src/lib", "src/lib/deep"))
    assert "from lib.ddp_utils import NoWriter" in texts["src/lib/deep/io.py"]
    assert "src/lib/ddp_utils.py" in texts


def test_what_lies_below_the_entry_finds_them_beside_it(tree):
    _, texts = tree("train.py", "from lib.io import save", "lib/io.py", packages=("lib",))
    assert "ddp_utils.py" in texts and "from ddp_utils import NoWriter" in texts["lib/io.py"]


def test_an_entry_in_a_package_is_named_as_the_programs_imports_name_it(tree):
    done, texts = tree(
        "models/one/__main__.py",
        "from models.one.io import save",
        "models/one/io.py",
        packages=(".", "models", "models/one"),
    )
    assert done.launch.endswith("-m models.one")
    assert "from models.one.ddp_utils import NoWriter" in texts["models/one/io.py"]
