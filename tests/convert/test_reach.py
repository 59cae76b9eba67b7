"""What a program runs: definitions that something leads to, and backward passes that train."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from migrator.facts.program import Program
from migrator.facts.steps.backwards import backward_passes
from migrator.load.project import load_project

HEAD = "import torch\nfrom torch.autograd import Function\nimport fast\nfrom parts import train\n\n"


def unreached(folder: Path, entry: str, parts: str) -> list[str]:
    """Names of the definitions in `parts` that nothing leads to."""
    (folder / "main.py").write_text(entry)
    (folder / "parts.py").write_text(parts)
    program = Program(load_project(folder / "main.py"))
    module = next(m for m in program.modules if m.path.endswith("parts.py"))
    defined = [n for n in module.tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)]
    return [node.name for node in defined if program.is_unreached(module, node)]


PARTS = "def train():\n    pass\n\n\ndef test():\n    pass\n"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("from parts import train\n\n\ndef test():\n    pass\n\n\ntrain()\ntest()\n", ["test"]),
        ("from parts import train\n\ntrain()\nd = nets.__dict__['small']\n", ["test"]),
        ("from parts import train, test\n\ntrain()\ntest()\n", []),
        ("from parts import *\n\ntrain()\ntest()\n", []),
        ("import parts\n\nparts.train()\nparts.test()\n", []),
        (
            "try:\n    from parts import train, test\nexcept ImportError:\n    def test():\n        pass\n\n\ntest()\n",
            [],
        ),
        ("import parts\n\ngetattr(parts, name)()\n", []),
        ("import parts\n\nparts.__dict__[name]()\n", []),
        ("import parts\n\nparts.train()\nprint('test')\n", []),
    ],
)
def test_a_name_that_a_file_defines_itself_leads_to_no_other_file(
    tmp_path: Path, entry: str, expected: list[str]
) -> None:
    assert unreached(tmp_path, entry, PARTS) == expected


GRADIENT = """
class Op(Function):
    @staticmethod
    def forward(ctx, x):
        return fast.forward(x)

    @staticmethod
    def backward(ctx, g):
        return {}
"""


@pytest.mark.parametrize(
    ("text", "trains"),
    [
        (GRADIENT.format("fast.backward(g)"), False),
        (GRADIENT.format("torch.autograd.backward(ctx.y, g)"), True),
        (GRADIENT.format("ctx.y.backward(g)"), True),
        (GRADIENT.replace("(Function)", "(Engine)").format("fast.backward(g)"), True),
        ("def step(loss):\n    fast.backward(loss)\n\n\nstep(1)\n", True),
    ],
)
def test_the_gradient_of_an_operation_is_no_backward_pass_of_training(tmp_path: Path, text: str, trains: bool) -> None:
    (tmp_path / "parts.py").write_text("def train():\n    pass\n")
    (tmp_path / "main.py").write_text(HEAD + text + "\n\nOp = Op if 'Op' in dir() else None\n")
    assert bool(backward_passes(Program(load_project(tmp_path / "main.py")))) is trains
