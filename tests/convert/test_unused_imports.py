"""What a conversion leaves without a use goes, with the rule that took the last use away; whatever may be used stays."""

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import convert_program
from tests.rules.tools import convert

PROGRAM = """\
import torch
{imports}
from torch.utils.data import DataLoader, TensorDataset


def main():
    data = TensorDataset(torch.randn(64, 4), torch.randn(64, 1))
    loader = DataLoader(data, batch_size=16, shuffle=True)
    model = {wrap}(torch.nn.Linear(4, 1).cuda())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            loss = torch.nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    {last}


if __name__ == "__main__":
    main()
"""


def after(imports: str, wrap: str = "DataParallel", last: str = "pass") -> str:
    return convert(PROGRAM.format(imports=imports, wrap=wrap, last=last)).changes[0].after


@pytest.mark.parametrize(
    ("imports", "wrap", "left"),
    [
        ("from torch.nn import DataParallel", "DataParallel", ""),
        ("from torch.nn import DataParallel as DP", "DP", ""),
        ("from torch.nn.parallel import DataParallel", "DataParallel", ""),
        ("from torch.nn import DataParallel, Linear", "DataParallel", "from torch.nn import Linear\n"),
        ("from torch.nn import Linear as L, DataParallel", "DataParallel", "from torch.nn import Linear as L\n"),
        ("from torch import nn", "nn.DataParallel", ""),
    ],
)
def test_the_import_of_what_was_replaced_goes(imports, wrap, left):
    text = after(imports, wrap)
    assert imports not in text.splitlines()
    assert left in text and "import torch\n" in text


@pytest.mark.parametrize(
    ("imports", "last"),
    [
        ("from torch.nn import DataParallel  # several GPUs", "pass"),
        ("# several GPUs\nfrom torch.nn import DataParallel", "pass"),
        ("from torch.nn import DataParallel", "print(DataParallel.__doc__)"),
        ("from torch.nn import DataParallel\n\n__all__ = ['DataParallel']", "pass"),
        ("try:\n    from torch.nn import DataParallel\nexcept ImportError:\n    raise", "pass"),
    ],
    ids=["a comment beside it", "a comment above it", "another use", "a list of names", "a try"],
)
def test_an_import_stays_with(imports, last):
    assert "from torch.nn import DataParallel" in after(imports, last=last)


def test_an_import_that_nothing_used_before_is_not_ours_to_take():
    assert "from torch.nn import Linear\n" in after("from torch.nn import DataParallel\nfrom torch.nn import Linear")


def test_a_name_that_another_file_takes_from_here_stays(tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PROGRAM.format(
        imports="from torch.nn import DataParallel\nimport other", wrap="DataParallel", last="other.f"
    )
    Path("train.py").write_text(text)
    Path("other.py").write_text("def f():\n    from train import DataParallel\n    return DataParallel\n")
    (change,) = [c for c in convert_program(Path("train.py"), Options()).changes if c.path == "train.py"]
    assert "from torch.nn import DataParallel\n" in change.after


def test_an_import_that_a_rule_takes_out_itself_is_no_conflict():
    text = PROGRAM.format(imports="from apex import amp", wrap="torch.nn.DataParallel", last="pass")
    text = text.replace(
        "    for epoch", '    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n    for epoch', 1
    )
    text = text.replace(
        "loss.backward()", "with amp.scale_loss(loss, optimizer) as scaled:\n                scaled.backward()"
    )
    conversion = convert(text, amp="fp16")
    assert "apex" not in conversion.changes[0].after
    assert not [d for d in conversion.questions if "both want" in d.message]
