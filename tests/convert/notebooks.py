"""Own small notebooks, laid out as Jupyter writes them."""

import json
from collections.abc import Sequence

IMPORTS = """\
%matplotlib inline
!pip install --quiet torch
import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset"""
DATA = """\
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))
loader = DataLoader(data, batch_size=64, shuffle=True)"""
NET = """\
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 2)

    def forward(self, x):
        return self.fc(x)"""
MODEL = """\
# as many GPUs as there are
model = nn.DataParallel(Net())
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)"""
LOOP = """\
%%time
for epoch in range(3):
    for inputs, targets in loader:
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
torch.save(model.state_dict(), "model.pt")"""
CELLS = ("# Größen\n\nof *things*", IMPORTS, DATA, "plt.hist(data.tensors[0].flatten())", NET, MODEL, LOOP)


def document(cells: Sequence[str] = CELLS, joined: bool = False) -> dict:
    """A notebook: cells that begin with `# ` and hold a blank line are Markdown; `joined` sources are one text."""
    made = []
    for number, text in enumerate(cells):
        source = text if joined else text.splitlines(keepends=True)
        if text.startswith("# ") and "\n\n" in text:
            made.append({"cell_type": "markdown", "metadata": {}, "source": source})
            continue
        output = {"name": "stdout", "output_type": "stream", "text": [f"größer {number}\n"]}
        made.append(
            {
                "cell_type": "code",
                "execution_count": number,
                "metadata": {"scrolled": True},
                "outputs": [output],
                "source": source,
            }
        )
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    return {"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def text(cells: Sequence[str] = CELLS) -> str:
    """The file, as Jupyter writes it."""
    return json.dumps(document(cells), indent=1, ensure_ascii=False) + "\n"


def sources(raw: str) -> list[str]:
    """The sources of all cells of a file."""
    return ["".join(cell["source"]) for cell in json.loads(raw)["cells"]]
