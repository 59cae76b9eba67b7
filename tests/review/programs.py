"""Programs to review: a project of eight files with some sixty hunks, and sources that try to leave the page."""

from pathlib import Path

_TRAIN = '''\
"""Train a small classifier, and write down everything that happens."""
import argparse
import os

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter

import checkpoints
import engine
import figures
import tables
from data import make_loaders
from network import Classifier


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--resume", default="")
    parser.add_argument("--out", default="runs")
    return parser.parse_args()


def main():
    args = parse()
    torch.manual_seed(7)
    os.makedirs(args.out, exist_ok=True)
    train_loader, test_loader = make_loaders(args)
    model = Classifier(16, 4).cuda()
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.9)
    if args.resume:
        checkpoints.load(args.resume, model)
    writer = SummaryWriter(args.out)
    for epoch in range(args.epochs):
        loss = engine.train(train_loader, model, criterion, optimizer)
        correct = engine.evaluate(test_loader, model)
        scheduler.step()
        writer.add_scalar("correct", correct, epoch)
        tables.write_all(args.out, epoch, loss, correct)
        figures.draw_all(args.out, epoch, loss)
        checkpoints.save_all(args.out, epoch, model)
    writer.close()


if __name__ == "__main__":
    main()
'''
_DATA = """\
import torch
from torch.utils.data import DataLoader, TensorDataset


def make_loaders(args):
    train_set = TensorDataset(torch.randn(512, 16), torch.randint(4, (512,)))
    test_set = TensorDataset(torch.randn(128, 16), torch.randint(4, (128,)))
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=2)
    test_loader = DataLoader(test_set, batch_size=args.batch_size, shuffle=False)
    return train_loader, test_loader
"""
_NETWORK = """\
from torch import nn


class Classifier(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(inputs, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, classes))

    def forward(self, x):
        return self.layers(x)
"""
_ENGINE = """\
import torch

from meters import AverageMeter


def train(loader, model, criterion, optimizer):
    model.train()
    losses = AverageMeter()
    for images, targets in loader:
        images, targets = images.cuda(), targets.cuda()
        loss = criterion(model(images), targets)
        losses.update(loss.item(), images.size(0))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses.avg


def evaluate(loader, model):
    model.eval()
    correct = 0
    with torch.no_grad():
        for images, targets in loader:
            correct += (model(images.cuda()).argmax(1) == targets.cuda()).sum().item()
    return correct
"""
_METERS = """\
class AverageMeter:
    def __init__(self):
        self.sum = 0.0
        self.count = 0
        self.avg = 0.0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n
        self.avg = self.sum / self.count
"""


def write_project(folder: Path, writes: int = 17) -> Path:
    """Eight files; `tables`, `figures` and `checkpoints` hold so many functions that write one file each."""
    names = range(writes)
    tables = "import os\n\nimport numpy as np\n"
    tables += "".join(
        f"\n\ndef write_table_{n}(out, epoch, loss):\n    rows = np.zeros((epoch + 1, {n + 2}))\n    rows[:] = loss\n"
        f'    path = os.path.join(out, f"table_{n}_{{epoch}}.txt")\n    np.savetxt(path, rows)\n    return rows\n'
        for n in names
    )
    tables += "\n\ndef write_all(out, epoch, loss, correct):\n"
    tables += "".join(f"    write_table_{n}(out, epoch, loss)\n" for n in names)
    figures = "import os\n\nimport matplotlib.pyplot as plt\n"
    figures += "".join(
        f'\n\ndef draw_{n}(out, epoch, loss):\n    plt.figure()\n    plt.plot([loss] * {n + 2})\n    plt.title("figure {n}")\n'
        f'    plt.savefig(os.path.join(out, f"figure_{n}_{{epoch}}.png"))\n    plt.close()\n'
        for n in names
    )
    figures += "\n\ndef draw_all(out, epoch, loss):\n" + "".join(f"    draw_{n}(out, epoch, loss)\n" for n in names)
    checkpoints = "import os\n\nimport torch\n\n\ndef load(path, model):\n    state = torch.load(path)\n    model.load_state_dict(state)\n"
    checkpoints += "".join(
        f'\n\ndef save_{n}(out, epoch, model):\n    name = f"model_{n}_{{epoch}}.pt"\n    state = model.state_dict()\n'
        f"    torch.save(state, os.path.join(out, name))\n    print(name)\n    return name\n"
        for n in names
    )
    checkpoints += "\n\ndef save_all(out, epoch, model):\n" + "".join(
        f"    save_{n}(out, epoch, model)\n" for n in names
    )
    files = {
        "train.py": _TRAIN,
        "data.py": _DATA,
        "network.py": _NETWORK,
        "engine.py": _ENGINE,
        "meters.py": _METERS,
        "tables.py": tables,
        "figures.py": figures,
        "checkpoints.py": checkpoints,
    }
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder / "train.py"
