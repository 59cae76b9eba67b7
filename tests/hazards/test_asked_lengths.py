"""A share of the test samples has another length than all of them: whatever asks for it keeps the evaluation whole."""

import pytest

from migrator.convert.conversion import Conversion
from tests.rules.tools import convert

PROGRAM = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

{above}
data = TensorDataset(torch.randn(48, 8), torch.randint(3, (48,)))
loader = DataLoader(data, batch_size=16, shuffle=True)
held_out = TensorDataset(torch.randn(18, 8), torch.randint(3, (18,)))
tests = DataLoader(held_out, batch_size=16)
model = nn.DataParallel(nn.Linear(8, 3).cuda())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for x, y in loader:
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    right = 0
    with torch.no_grad():
        for step, (x, y) in enumerate(tests):
            right += (model(x.cuda()).argmax(1) == y.cuda()).sum().item()
            {inside}
    {behind}
"""
HOLDER = "class Holder:\n    pass\n"
RATE = "def rate(right, samples):\n    print(f'{right / len(samples.dataset):.3f}')\n"
SET = "class Kept(torch.utils.data.Dataset):\n    def __len__(self):\n        return len(self.dataset)\n"


def converted(behind: str, above: str = "", inside: str = "pass", target: str = "ddp") -> Conversion:
    text = PROGRAM.format(above=above, inside=inside, behind=behind.replace("\n", "\n    "))
    return convert(text, target=target)


def is_shared(conversion: Conversion) -> bool:
    after = conversion.changes[0].after
    return "(own_share(" in after or "(process_share(" in after


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize(
    ("behind", "above"),
    [
        ('print("accuracy %.4f" % (right / len(tests.dataset)))', ""),
        ('print("{:.4f} of {}".format(right, len(tests.sampler)))', ""),
        ('print(f"{right / len(tests)} of a batch")', ""),
        ("print(right / tests.dataset.__len__())", ""),
        ("kept = tests.dataset\nprint(right / len(kept))", ""),
        ("again = tests\nprint(right / len(again.dataset))", ""),
        ("holder = Holder()\nholder.tests = tests\nprint(right / len(holder.tests.dataset))", HOLDER),
        ('loaders = {"val": tests}\nprint(right / len(loaders["val"].dataset))', ""),
        ("rate(right, tests)", RATE),
        ("print(right, tests.dataset.tensors[0].shape)", ""),
    ],
)
def test_what_speaks_of_all_samples_keeps_the_evaluation_whole(behind: str, above: str, target: str):
    conversion = converted(behind, above, target=target)
    assert conversion.way == "distributed" and not is_shared(conversion)
    notes = [d.message for d in conversion.diagnostics if d.rule == "MG702"]
    assert any("would be that of this process's share" in note for note in notes), notes


@pytest.mark.parametrize("target", ["ddp", "accelerate"])
@pytest.mark.parametrize(
    ("behind", "above", "inside"),
    [
        ("print(right / len(held_out))", "", "pass"),
        ("print(right)", "", "print(step, len(tests))"),
        ("print(right)", SET, "pass"),
    ],
)
def test_the_set_of_its_own_name_is_whole_and_progress_is_of_the_process(
    behind: str, above: str, inside: str, target: str
):
    assert is_shared(converted(behind, above, inside, target))
