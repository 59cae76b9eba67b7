"""DataParallel that is handed on is called somewhere: the program is not one that needs nothing."""

import pytest

from tests.rules.tools import check_noop, check_question, convert, training

PLAIN = training("pass")
WRAP = "model = nn.DataParallel(nn.Linear(4, 2))"


@pytest.mark.parametrize("made", ["functools.partial(nn.DataParallel, dim=0)", 'getattr(nn, "DataParallel")'])
def test_a_wrapper_under_another_name_is_a_question(made: str):
    text = PLAIN.replace("import os", "import functools").replace(
        WRAP, f"wrap = {made}\n    model = wrap(nn.Linear(4, 2))"
    )
    assert convert(text).exit_code == 3
    check_question(text, "write `nn.DataParallel(model)`", "MG901")
    both = text.replace("    wrap =", f"    {WRAP.replace('model', 'other')}\n    other(data)\n    wrap =")
    assert any(d.rule == "MG901" for d in convert(both).questions)


@pytest.mark.parametrize(
    "added", ["print(isinstance(model, nn.DataParallel))", 'print(getattr(nn, "Linear"), hasattr(nn, "DataParallel"))']
)
def test_what_only_asks_is_none(added: str):
    check_noop(training(added), "MG901")
