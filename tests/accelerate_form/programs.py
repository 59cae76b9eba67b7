"""DataParallel programs that the tests convert and run."""

PLAIN = """\
import argparse

import torch
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=4)
parser.add_argument("--samples", type=int, default=48)
parser.add_argument("--batch-size", type=int, default=16)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--plateau", action="store_true")
parser.add_argument("--resume", default="")
parser.add_argument("--out", default="checkpoint.pt")
history = {"lr": [], "rows": [], "accuracy": [], "counted": [], "loss": [], "weight": 0.0, "keys": [], "drawn": 0.0}


class Linear(nn.Linear):
    def forward(self, x):
        if self.training:
            history["rows"].append(len(x))
        return super().forward(x)


def main():
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set = TensorDataset(torch.randn(args.samples, 4), torch.randint(3, (args.samples,)))
    val_set = TensorDataset(torch.randn(37, 4), torch.randint(3, (37,)))
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), Linear(8, 3))
    model = nn.DataParallel(model).to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    if args.plateau:
        scheduler = ReduceLROnPlateau(optimizer, patience=1)
    else:
        scheduler = StepLR(optimizer, step_size=2)
    start = 0
    if args.resume:
        checkpoint = torch.load(args.resume)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        start = checkpoint["epoch"]
    history["weight"] = float(sum(p.detach().abs().sum() for p in model.parameters()))
    history["drawn"] = torch.rand(()).item()
    for epoch in range(start, args.epochs):
        loss = train(model, train_loader, criterion, optimizer, device)
        accuracy, counted = validate(model, val_loader, device)
        if args.plateau:
            scheduler.step(1.0)
        else:
            scheduler.step()
        history["lr"].append(optimizer.param_groups[0]["lr"])
        history["accuracy"].append(accuracy)
        history["counted"].append(counted)
        history["loss"].append(loss)
        print(f"epoch {epoch}: accuracy {accuracy:.4f}")
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": args.epochs}, args.out)
    history["keys"] = sorted(torch.load(args.out)["model"])[:1]


def train(model, loader, criterion, optimizer, device):
    model.train()
    total, count = 0.0, 0
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        total += loss.item() * inputs.size(0)
        count += inputs.size(0)
    return total / count


def validate(model, loader, device):
    model.eval()
    correct, counted = 0, 0
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            output = model(inputs)
            correct += (output.argmax(dim=1) == targets).sum().item()
            counted += targets.size(0)
    return correct / counted, counted


if __name__ == "__main__":
    main()
"""
# An in-batch contrastive loss needs the whole batch.
CONTRASTIVE = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

history = {"weight": 0.0, "loss": [], "rows": []}
torch.manual_seed(0)
torch.set_default_dtype(torch.float64)
loader = DataLoader(TensorDataset(torch.randn(50, 4)), batch_size=16, shuffle=True)
model = nn.DataParallel(nn.Linear(4, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    for (inputs,) in loader:
        features = model(inputs)
        similar = features @ features.t()
        loss = nn.functional.cross_entropy(similar, torch.arange(len(similar)))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["loss"].append(loss.item())
        history["rows"].append(len(features))
history["weight"] = float(sum(p.detach().abs().sum() for p in model.parameters()))
"""

FILES = {
    "train.py": """\
import torch
from data import get_loaders
from engine import evaluate, train_one_epoch
from models import build_model

history = {"accuracy": [], "lr": []}


def main():
    torch.manual_seed(1)
    train_loader, val_loader = get_loaders(16)
    model = build_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.0)
    for epoch in range(2):
        train_one_epoch(model, train_loader, optimizer)
        history["accuracy"].append(evaluate(model, val_loader))
    torch.save(model.module.state_dict(), "last.pt")


if __name__ == "__main__":
    main()
""",
    "models.py": """\
from torch import nn


def build_model():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    model = nn.DataParallel(model)
    return model
""",
    "data.py": """\
import torch
from torch.utils.data import DataLoader, TensorDataset


def get_loaders(batch_size):
    train = TensorDataset(torch.randn(64, 4), torch.randint(3, (64,)))
    val = TensorDataset(torch.randn(37, 4), torch.randint(3, (37,)))
    train_loader = DataLoader(train, batch_size=batch_size, shuffle=True)
    val_loader = DataLoader(val, batch_size=batch_size)
    return train_loader, val_loader
""",
    "engine.py": """\
import torch
from torch.nn import functional as F


def train_one_epoch(model, loader, optimizer):
    model.train()
    for x, y in loader:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    correct, total = 0, 0
    for x, y in loader:
        correct += (model(x).argmax(1) == y).sum().item()
        total += y.size(0)
    return correct / total
""",
}

# A trainer in a module of its own makes everything in its constructor.
TRAINER = {
    "train.py": """\
import torch
from trainer import Trainer

history = {}


def main():
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    trainer = Trainer(None)
    trainer.train(history)


if __name__ == "__main__":
    main()
""",
    "trainer.py": '''\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    """Trains."""

    def __init__(self, args):
        """Make all."""
        self.args = args
        data = TensorDataset(torch.randn(48, 4), torch.randint(3, (48,)))
        self.loader = DataLoader(data, batch_size=16, shuffle=True)
        self.model = nn.DataParallel(nn.Linear(4, 3))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self, history):
        for epoch in range(2):
            self.run_epoch(epoch)
            print(f"epoch {epoch}")
        torch.save(self.model.state_dict(), "m.pt")
        history["weight"] = float(sum(p.detach().abs().sum() for p in self.model.parameters()))

    def run_epoch(self, epoch):
        for inputs, targets in self.loader:
            loss = nn.functional.cross_entropy(self.model(inputs), targets)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
''',
}

# Gradients of two batches make a step.
ACCUMULATING = PLAIN.replace(
    """\
    for inputs, targets in loader:
        inputs, targets = inputs.to(device), targets.to(device)
        loss = criterion(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
""",
    """\
    every = 2
    for i, (inputs, targets) in enumerate(loader):
        inputs, targets = inputs.to(device), targets.to(device)
        loss = criterion(model(inputs), targets)
        (loss / every).backward()
        if (i + 1) % every == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
""",
)

# A DistributedDataParallel program as people write it by hand; its batch size is that of each process.
# Each epoch is left after two of its eight batches.
LEFT_EARLY = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

history = {"samples": []}
torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.arange(64.0).unsqueeze(1)), batch_size=8, shuffle=True)
model = nn.DataParallel(nn.Linear(1, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
for epoch in range(2):
    for step, (inputs,) in enumerate(loader):
        if step == 2:
            break
        loss = model(inputs).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history["samples"] += inputs.flatten().tolist()
"""

BY_HAND = """\
import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

history = {"loss": [], "accuracy": [], "weight": 0.0}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=2)
    args = parser.parse_args()
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    local_rank = int(os.environ["LOCAL_RANK"])
    if torch.cuda.is_available():
        torch.cuda.set_device(local_rank)
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    torch.set_default_dtype(torch.float64)
    train_set = TensorDataset(torch.randn(64, 4), torch.randint(3, (64,)))
    val_set = TensorDataset(torch.randn(36, 4), torch.randint(3, (36,)))
    train_sampler = DistributedSampler(train_set)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, sampler=train_sampler, num_workers=0)
    val_loader = DataLoader(val_set, batch_size=args.batch_size, sampler=DistributedSampler(val_set, shuffle=False))
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).to(device)
    model = DDP(model, device_ids=[local_rank] if torch.cuda.is_available() else None, find_unused_parameters=False)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(args.epochs):
        train_sampler.set_epoch(epoch)
        model.train()
        for inputs, targets in train_loader:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history["loss"].append(loss.item())
        accuracy = evaluate(model, val_loader, device)
        history["accuracy"].append(accuracy)
        if rank == 0:
            print(f"epoch {epoch}: accuracy {accuracy:.4f}")
            torch.save(model.module.state_dict(), "model.pt")
        dist.barrier()
    history["weight"] = float(sum(p.detach().abs().sum() for p in model.parameters()))
    dist.destroy_process_group()


def evaluate(model, loader, device):
    model.eval()
    correct = torch.tensor(0, device=device)
    total = torch.tensor(0, device=device)
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            correct += (model(inputs).argmax(dim=1) == targets).sum()
            total += targets.size(0)
    dist.all_reduce(correct)
    dist.all_reduce(total)
    return correct.item() / total.item()


if __name__ == "__main__":
    main()
"""
