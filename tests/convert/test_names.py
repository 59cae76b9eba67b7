"""Helper names never meet the user's."""

import ast

import pytest

from .conftest import PROGRAM

OWN = 'def {name}(*args):\n    """Mine."""\n    return "mine"\n\n\n'


@pytest.mark.parametrize("name", ["setup_distributed", "wrap_model", "local_batch"])
def test_a_function_of_the_same_name_stays_the_users(cli, train, name):
    source = PROGRAM.replace("def main", OWN.format(name=name) + "def main").replace(
        "    args = parser", f"    print({name}(1))\n    args = parser"
    )
    train.write_text(source)
    done = cli("convert", "train.py", "--write")
    assert done.code == 0, done.stderr
    after = train.read_text()
    assert OWN.format(name=name) in after
    assert f"print({name}(1))" in after
    definitions = [n.name for n in ast.parse(after).body if isinstance(n, ast.FunctionDef)]
    assert definitions.count(name) == 1
    assert "setup_distributed" + ("_ddp" if name == "setup_distributed" else "") + "()" in after
    assert cli("convert", "train.py", "--check").code == 0


def test_a_module_of_the_helpers_name_stays_the_users(cli, train, tmp_path):
    (tmp_path / "ddp_utils.py").write_text("x = 1\n")
    assert cli("convert", "train.py", "--sampling", "call", "--write").code == 0
    assert (tmp_path / "ddp_utils.py").read_text() == "x = 1\n"
    assert (tmp_path / "distributed_utils.py").exists()
