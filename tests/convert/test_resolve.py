"""Who is who: an expression followed back to what made it."""

import ast
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from migrator.facts.program import Program
from migrator.load.project import load_project

HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import DataParallel as DP\nimport torch.nn.parallel as par\n"


def wrapped(text: str, folder: Path, **others: str) -> bool:
    """True when `use(…)` in the text may get a wrapped model."""
    for name, other in others.items():
        (folder / f"{name}.py").write_text(HEAD + other)
    path = folder / "train.py"
    path.write_text(HEAD + text)
    program = Program(load_project(path))
    for module in program.modules:
        for node in module.nodes:
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "use":
                return program.is_wrapped(module, node.args[0])
    raise AssertionError("nothing is used")


WRAPPED = {
    "a name": "m = nn.DataParallel(net)\nuse(m)\n",
    "an alias": "m = nn.DataParallel(net)\nn = m\nuse(n)\n",
    "a renamed import": "m = DP(net)\nuse(m)\n",
    "another spelling": "m = par.DataParallel(net)\nuse(m)\n",
    "an alias of the class": "Wrap = nn.DataParallel\nm = Wrap(net)\nuse(m)\n",
    "a chain of moves": "m = nn.DataParallel(net).cuda().train()\nuse(m)\n",
    "one branch of two": "m = net\nif x:\n    m = nn.DataParallel(m)\nuse(m)\n",
    "a conditional expression": "m = nn.DataParallel(net) if x else net\nuse(m)\n",
    "a tuple": "m, o = nn.DataParallel(net), 1\nuse(m)\n",
    "a list": "ms = [nn.DataParallel(net)]\nuse(ms[0])\n",
    "a dictionary": "ms = {'a': nn.DataParallel(net), 'b': 1}\nuse(ms['a'])\n",
    "a written element": "ms = {}\nms['a'] = nn.DataParallel(net)\nuse(ms['a'])\n",
    "a loop over a tuple": "for m in (nn.DataParallel(net),):\n    use(m)\n",
    "a returned value": "def make():\n    return nn.DataParallel(net)\nuse(make())\n",
    "a returned tuple": "def make():\n    m = nn.DataParallel(net)\n    return m, 1\nm, o = make()\nuse(m)\n",
    "a returned parameter": "def wrap(n):\n    n = nn.DataParallel(n)\n    return n\nm = wrap(net)\nuse(m)\n",
    "a parameter": "def run(m):\n    use(m)\nrun(nn.DataParallel(net))\n",
    "a keyword parameter": "def run(a=1, m=None):\n    use(m)\nrun(m=nn.DataParallel(net))\n",
    "a global": "m = nn.DataParallel(net)\ndef run():\n    use(m)\nrun()\n",
    "an attribute": "class T:\n    def __init__(self):\n        self.m = nn.DataParallel(net)\n    def run(self):\n        use(self.m)\n",
    "an attribute of a base class": (
        "class B:\n    def __init__(self):\n        self.m = nn.DataParallel(net)\n\n\n"
        "class T(B):\n    def run(self):\n        use(self.m)\n"
    ),
    "an attribute of an object": (
        "class T:\n    def __init__(self):\n        self.m = nn.DataParallel(net)\n\n\nt = T()\nuse(t.m)\n"
    ),
    "an attribute from a parameter": (
        "class T:\n    def __init__(self, m):\n        self.m = m\n    def run(self):\n        use(self.m)\n\n\n"
        "T(nn.DataParallel(net)).run()\n"
    ),
}
BARE = {
    "another name": "m = nn.DataParallel(net)\nuse(net)\n",
    "another element": "m, o = nn.DataParallel(net), other\nuse(o)\n",
    "another key": "ms = {'a': nn.DataParallel(net), 'b': other}\nuse(ms['b'])\n",
    "a local of the same name": "m = nn.DataParallel(net)\ndef run():\n    m = other()\n    use(m)\nrun()\n",
    "an attribute of another class": (
        "class A:\n    def __init__(self):\n        self.m = nn.DataParallel(net)\n\n\n"
        "class T:\n    def __init__(self):\n        self.m = other()\n    def run(self):\n        use(self.m)\n"
    ),
    "what the model returns": "m = nn.DataParallel(net)\nuse(m(1))\n",
    "a class of the same name": "class DataParallel:\n    pass\nm = DataParallel()\nuse(m)\n",
    "itself": "m = m\nuse(m)\n",
    "functions that call each other": "def f():\n    return g()\ndef g():\n    return f()\nuse(f())\n",
}


@pytest.mark.parametrize("text", WRAPPED.values(), ids=WRAPPED)
def test_wrapped(text, tmp_path):
    assert wrapped(text, tmp_path)


@pytest.mark.parametrize("text", BARE.values(), ids=BARE)
def test_bare(text, tmp_path):
    assert not wrapped(text, tmp_path)


@pytest.mark.parametrize(
    "line",
    [
        "from models import make\nuse(make())",
        "import models\nuse(models.make())",
        "from models import *\nuse(make())",
        "import models as ms\nuse(ms.make())",
        "from models import shared\nuse(shared)",
    ],
)
def test_over_modules(line, tmp_path):
    other = "def make():\n    return nn.DataParallel(nn.Linear(1, 1))\n\n\nshared = make()\n"
    assert wrapped(line + "\n", tmp_path, models=other)


def test_over_a_reexport(tmp_path):
    (tmp_path / "inner.py").write_text(HEAD + "def make():\n    return nn.DataParallel(nn.Linear(1, 1))\n")
    assert wrapped("from models import make\nuse(make())\n", tmp_path, models="from inner import make\n")


def test_modules_that_import_a_name_from_each_other_are_no_endless_search(tmp_path):
    (tmp_path / "one.py").write_text("from two import net\n")
    (tmp_path / "two.py").write_text("from one import net\n")
    entry = tmp_path / "train.py"
    entry.write_text("import torch.nn as nn\nfrom one import net\nmodel = nn.DataParallel(net)\nmodel(1).backward()\n")
    assert convert_program(entry, Options()).outcome == "converted"
