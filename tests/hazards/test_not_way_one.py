"""Small changes to a plain program that must keep it from loading shares of batches, and others that must not.

Each case edits one plain program.  A share of its own for each process is right only as long as the mean of the shares' losses
is the loss of the whole batch, each share is seen by nothing but the model, and gradients are exchanged once a step.  Where
only the first does not hold, outputs and targets are put together; where the others do not, the batch stays whole.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.conversion import Conversion
from migrator.convert.pipeline import convert_program
from migrator.load.source import Source

PLAIN = """\
import argparse
import copy
import random

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from tqdm import tqdm


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(8, 16)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.relu(self.body(x))
        return self.head(x)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(64, 8), torch.randint(4, (64,)))
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True)
    model = nn.DataParallel(Net()).cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    # before the epochs
    for epoch in range(args.epochs):
        # before the batches
        for i, (x, y) in enumerate(loader):
            x, y = x.cuda(), y.cuda()
            out = model(x)
            loss = criterion(out, y)
            # before the step
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            # after the step
        # after the batches


if __name__ == "__main__":
    main()
"""
LOSS = "            loss = criterion(out, y)\n"
CRITERION = "nn.CrossEntropyLoss()"
FORWARD = "        return self.head(x)\n"
HEAD = "        self.head = nn.Linear(16, 4)\n"
MODEL = "            out = model(x)\n"
LOADER = "DataLoader(data, batch_size=args.batch_size, shuffle=True)"
EPOCHS, BATCHES = "    # before the epochs\n", "        # before the batches\n"
STEP, STEPPED, AFTER = (
    "            # before the step\n",
    "            # after the step\n",
    "        # after the batches\n",
)
BACKWARD = "            loss.backward()\n"
Edit = tuple[str, str]


def edited(*changes: Edit) -> str:
    text = PLAIN
    for old, new in changes:
        assert text.count(old) == 1, f"{text.count(old)} times in the program: {old!r}"
        text = text.replace(old, new)
    return text


@pytest.fixture
def convert(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)

    def run(*changes: Edit) -> Conversion:
        text = edited(*changes)
        compile(text, "train.py", "exec")
        return convert_program(Path("train.py"), Options(), Source("train.py", text))

    return run


# ---------------------------------------------------------------- what must not be shared out where it is loaded
COUPLED: dict[str, tuple[Edit, ...]] = {
    "classes have weights": ((CRITERION, "nn.CrossEntropyLoss(torch.tensor([1.0, 2.0, 3.0, 4.0]).cuda())"),),
    "some targets are ignored": ((CRITERION, "nn.CrossEntropyLoss(ignore_index=3)"),),
    "losses are added up": ((CRITERION, 'nn.CrossEntropyLoss(reduction="sum")'),),
    "losses are added up in the old words": ((CRITERION, "nn.CrossEntropyLoss(size_average=False)"),),
    "losses stay apart and are weighted": (
        (CRITERION, 'nn.CrossEntropyLoss(reduction="none")'),
        (LOSS, LOSS + "            loss = (loss * (y > 0)).sum() / (y > 0).sum()\n"),
    ),
    "only some samples count": (
        (LOSS, "            keep = y > 0\n            loss = criterion(out[keep], y[keep])\n"),
    ),
    "the hardest samples count": (
        (CRITERION, 'nn.CrossEntropyLoss(reduction="none")'),
        (LOSS, LOSS + "            loss = loss.topk(4)[0].mean()\n"),
    ),
    "samples are mixed": (
        (
            MODEL,
            "            share = np.random.beta(1.0, 1.0)\n"
            + MODEL.replace("model(x)", "model(share * x + (1 - share) * x.flip(0))"),
        ),
    ),
    "samples are mixed by a permutation": (
        (MODEL, "            order = torch.randperm(x.size(0))\n            x = 0.5 * x + 0.5 * x[order]\n" + MODEL),
    ),
    "only some samples count, which is known before": (
        (MODEL, "            mask = y > 0\n            mask.detach_()\n" + MODEL),
        (LOSS, "            loss = criterion(out[mask], y[mask])\n"),
    ),
    "samples are compared with each other": (
        (
            LOSS,
            "            out = F.normalize(out)\n            loss = criterion(out @ out.t(), torch.arange(len(y)).cuda())\n",
        ),
    ),
    "triplets are found in the batch": (
        (LOSS, "            far = torch.cdist(out, out)\n            loss = F.relu(far[0] - far[1] + 0.2).mean()\n"),
    ),
    "features are kept in a bank": (
        (EPOCHS, "    bank = torch.zeros(64, 4).cuda()\n"),
        (LOSS, LOSS + "            bank[i * len(y) : (i + 1) * len(y)] = out.detach()\n"),
    ),
    "outputs are collected over the epoch": (
        (BATCHES, "        outs = []\n"),
        (STEPPED, "            outs.append(out.detach())\n"),
        (AFTER, "        print(torch.cat(outs).mean(0))\n"),
    ),
    "targets have the size of the batch": (
        (
            LOSS,
            "            target = torch.zeros(args.batch_size, 4).cuda()\n            loss = F.mse_loss(out, target)\n",
        ),
    ),
    "small batches are left out": (
        (MODEL, "            if len(x) < args.batch_size:\n                continue\n" + MODEL),
    ),
    "an own loss sees the batch": (
        (
            "def main():",
            "def dice(out, y):\n    p = out.softmax(1)[:, 0]\n    return 1 - 2 * (p * y).sum() / (p.sum() + y.sum())\n\n\ndef main():",
        ),
        (LOSS, "            loss = dice(out, y)\n"),
    ),
    "a second loss looks at the batch": ((LOSS, LOSS + "            loss = loss + 0.1 * out.std(0).mean()\n"),),
    "the criterion has parameters": (
        (
            "class Net(",
            "class Centres(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.c = nn.Parameter(torch.zeros(4, 4))\n\n    def forward(self, out, y):\n        return (out - self.c[y]).pow(2).mean()\n\n\nclass Net(",
        ),
        (CRITERION, "Centres().cuda()"),
        (
            "torch.optim.SGD(model.parameters()",
            "torch.optim.SGD(list(model.parameters()) + list(criterion.parameters())",
        ),
    ),
    "a hidden state is carried along": (
        (MODEL, MODEL + "            state = out.detach()\n"),
        (LOSS, "            loss = criterion(out, y) + (state - out).pow(2).mean()\n"),
    ),
    "what is made of the inputs changes before the model": (
        (MODEL, "            part = x[:, :1]\n            part.mul_(2)\n" + MODEL),
        (LOSS, "            loss = (criterion(out, y) + out.std()) * part.mean()\n"),
    ),
    "what is made of the targets is drawn anew before the model": (
        (MODEL, "            mask = y > 0\n            mask.bernoulli_(0.5)\n" + MODEL),
        (LOSS, "            loss = criterion(out[mask], y[mask])\n"),
    ),
    "noise is drawn for the batch": ((MODEL, "            x = x + 0.1 * torch.randn_like(x)\n" + MODEL),),
    "the batch is flipped by chance": (
        (MODEL, "            if random.random() < 0.5:\n                x = x.flip(1)\n" + MODEL),
    ),
    "a bad loss is skipped": ((STEP, "            if torch.isnan(loss):\n                continue\n"),),
    "a bad loss ends the epoch": ((STEP, "            if loss.item() > 10:\n                break\n"),),
    "errors are survived": (
        (
            MODEL,
            "            try:\n                out = model(x)\n            except RuntimeError:\n                continue\n",
        ),
    ),
    "parts are released later": (
        (BATCHES, "        for p in model.module.body.parameters():\n            p.requires_grad = epoch > 0\n"),
    ),
    "parts are frozen after the wrap": ((EPOCHS, "    model.module.body.requires_grad_(False)\n"),),
    "the model is run past its wrapper, under a name of its own": (
        (EPOCHS, "    core = model.module\n"),
        ("out = model(x)", "out = core(x)"),
    ),
    "all of the wrapped model is replaced": ((EPOCHS, "    model.module = Net().cuda()\n"),),
    "a part is replaced after the wrap": ((EPOCHS, "    model.module.head = nn.Linear(16, 4).cuda()\n"),),
    "a part of a part is replaced": ((EPOCHS, "    model.module.head.weight = nn.Parameter(torch.zeros(4, 16))\n"),),
    "a part is replaced by its place": (
        (HEAD, "        self.head = nn.Sequential(nn.Linear(16, 4))\n"),
        (EPOCHS, "    model.module.head[0] = nn.Linear(16, 4).cuda()\n"),
    ),
    "a part is replaced by its name": ((EPOCHS, '    setattr(model.module, "head", nn.Linear(16, 4).cuda())\n'),),
    "a part is replaced through a short name": (
        (EPOCHS, "    net = model.module\n    net.head = nn.Linear(16, 4).cuda()\n"),
    ),
    "a part is replaced under the name from before the wrap": (
        ("    model = nn.DataParallel(Net()).cuda()\n", "    net = Net()\n    model = nn.DataParallel(net).cuda()\n"),
        (EPOCHS, "    net.head = nn.Linear(16, 4).cuda()\n"),
    ),
    "parameters are released by name": (
        (EPOCHS, '    for p in model.module.head.parameters():\n        setattr(p, "requires_grad", True)\n'),
    ),
    "the model is called twice": ((LOSS, "            loss = criterion(out, y) + criterion(model(x.flip(1)), y)\n"),),
    "two backward passes": (
        (BACKWARD, "            loss.backward(retain_graph=True)\n            out.pow(2).mean().backward()\n"),
    ),
    "a second backward pass in some steps": (
        (
            BACKWARD,
            "            loss.backward(retain_graph=True)\n            if i % 2:\n                out.mean().backward()\n",
        ),
    ),
    "a backward pass in each of two conditions": (
        (
            BACKWARD,
            "            if i % 2:\n                loss.backward(retain_graph=True)\n"
            "            if i % 3:\n                loss.backward()\n",
        ),
    ),
    "the model is also run past its wrapper": (
        (LOSS, LOSS + "            loss = loss + model.module.body(x).pow(2).mean()\n"),
    ),
    "the model is called twice under two names": (
        (EPOCHS, "    twin = model\n"),
        (MODEL, "            out = model(x) + twin(x.flip(1))\n"),
    ),
    "one network is wrapped twice": (
        (
            "    model = nn.DataParallel(Net()).cuda()\n",
            "    net = Net().cuda()\n    model = nn.DataParallel(net)\n    twin = nn.DataParallel(net)\n",
        ),
        (MODEL, "            out = model(x) + twin(x.flip(1))\n"),
    ),
    "gradients are taken by hand": (
        (
            BACKWARD,
            "            grads = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)\n" + BACKWARD,
        ),
    ),
    "the model goes to the host and back": ((AFTER, "        model.cpu()\n        model.cuda()\n"),),
    "a part is never used": ((HEAD, HEAD + "        self.aux = nn.Linear(16, 2)\n"),),
    "a part is never used by a model from a table": (
        (HEAD, HEAD + "        self.aux = nn.Linear(16, 2)\n"),
        ("nn.DataParallel(Net()).cuda()", 'nn.DataParallel(globals()["Net"]()).cuda()'),
    ),
    "a branch of the model goes by the samples": (
        (HEAD, HEAD + "        self.wild = nn.Linear(16, 4)\n"),
        (FORWARD, "        if x.max() > 3:\n            return self.wild(x)\n" + FORWARD),
    ),
    "layers are dropped by chance": (
        (HEAD, HEAD + "        self.extra = nn.Linear(16, 16)\n"),
        (FORWARD, "        if random.random() < 0.5:\n            x = self.extra(x)\n" + FORWARD),
    ),
    "the model remembers its last output": (
        (HEAD, HEAD + "        self.last = 0.0\n"),
        (FORWARD, "        x = x + self.last\n        self.last = x.mean().item()\n" + FORWARD),
    ),
    "an output is not always in the loss": (
        (HEAD, HEAD + "        self.side = nn.Linear(16, 4)\n"),
        (FORWARD, "        return self.head(x), self.side(x)\n"),
        (MODEL, "            out, side = model(x)\n"),
        (LOSS, LOSS + "            if epoch > 0:\n                loss = loss + criterion(side, y)\n"),
    ),
    "a table is given beside the batch": (
        ("def forward(self, x):", "def forward(self, x, table=0):"),
        (EPOCHS, "    table = torch.randn(2, 16).cuda()\n"),
        (MODEL, "            out = model(x, table)\n"),
    ),
    "batches are drawn one by one": (
        (
            "class Net(",
            "class Batches:\n    def __init__(self, size):\n        self.size = size\n\n    def __len__(self):\n        return 4\n\n"
            "    def __iter__(self):\n        for _ in range(4):\n            yield np.random.permutation(64)[: self.size].tolist()\n\n\nclass Net(",
        ),
        (LOADER, "DataLoader(data, batch_sampler=Batches(args.batch_size))"),
    ),
    "the batch cannot be divided": (("batch_size=args.batch_size, s", "batch_size=7, s"),),
    "the loader's arguments are hidden": ((LOADER, "DataLoader(data, **vars(args))"),),
    "a stream": (
        (
            "class Net(",
            "class Stream(torch.utils.data.IterableDataset):\n    def __iter__(self):\n        yield from range(8)\n\n\nclass Net(",
        ),
        (LOADER, "DataLoader(Stream(), batch_size=args.batch_size, shuffle=True)"),
    ),
    "only a part is wrapped, beside which statistics are taken": (
        ("nn.DataParallel(Net()).cuda()", "Net().cuda()\n    model.body = nn.DataParallel(model.body)"),
        (HEAD, "        self.head = nn.Sequential(nn.BatchNorm1d(16), nn.Linear(16, 4))\n"),
    ),
    "the second dimension is the batch": (("nn.DataParallel(Net())", "nn.DataParallel(Net(), dim=1)"),),
    "something else is trained as well": (
        ("torch.optim.SGD(model.parameters()", "torch.optim.SGD([*model.parameters(), scale]"),
        ("    criterion = ", "    scale = nn.Parameter(torch.ones(1).cuda())\n    criterion = "),
    ),
    "random numbers are restored": ((EPOCHS, '    torch.set_rng_state(torch.load("rng.pt"))\n'),),
    "new tensors are made on the GPU": ((EPOCHS, '    torch.set_default_tensor_type("torch.cuda.FloatTensor")\n'),),
    "a plateau by the loss of the batch": (
        (EPOCHS, "    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n"),
        (STEPPED, "            scheduler.step(loss)\n"),
    ),
}

# Parts that a step leaves out have gradients of zero, as under DataParallel.
LEFT_OUT = {
    name: COUPLED.pop(name)
    for name in [
        "a part is never used",
        "a part is never used by a model from a table",
        "a branch of the model goes by the samples",
        "layers are dropped by chance",
    ]
}
COUPLED |= {
    "a branch of the model goes by the samples, and the loss sees the batch": (
        *LEFT_OUT["a branch of the model goes by the samples"],
        (CRITERION, 'nn.CrossEntropyLoss(reduction="sum")'),
    ),
    "a part is never used, and forward is called directly": (
        *LEFT_OUT["a part is never used"],
        (MODEL, "            out = model.forward(x)\n"),
    ),
    "the model computes its loss, of which an evaluation takes the mean": (
        ("def forward(self, x):", "def forward(self, x, y):"),
        (
            FORWARD,
            "        out = self.head(x)\n        return F.relu(torch.cdist(out, out) - (y[:, None] == y)).mean()\n",
        ),
        (MODEL, ""),
        (LOSS, "            loss = model(x, y).mean()\n"),
        (
            AFTER,
            "        for x, y in DataLoader(data, batch_size=8):\n            loss = model(x, y)\n            print(loss.mean())\n",
        ),
    ),
}

# What a loop leaves behind, and what is decided by it, must be the same on all processes.
PLATEAU = (EPOCHS, "    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)\n")
BEST = (EPOCHS, "    best = 1e9\n")
COUPLED |= {
    "a plateau by the last loss": (PLATEAU, (AFTER, "        scheduler.step(loss)\n")),
    "a best model by the last loss": (
        BEST,
        (
            AFTER,
            "        if loss.item() < best:\n            best = loss.item()\n            torch.save(model.state_dict(), 'best.pt')\n",
        ),
    ),
    "an end by the last loss": ((AFTER, "        if loss < 0.1:\n            break\n"),),
    "an end by a list of losses": (
        (BATCHES, "        losses = []\n"),
        (STEPPED, "            losses.append(loss.item())\n"),
        (AFTER, "        if np.mean(losses) < 0.1:\n            break\n"),
    ),
    "an end by a history": (
        (EPOCHS, "    history = {'loss': []}\n"),
        (STEPPED, "            history['loss'].append(loss.item())\n"),
        (AFTER, "        if history['loss'][-1] > 5:\n            break\n"),
    ),
    "an end by the worst loss": (
        (EPOCHS, "    worst = 0.0\n"),
        (STEPPED, "            worst = max(worst, loss.item())\n"),
        (AFTER, "        if worst > 9:\n            break\n"),
    ),
    "an end by a meter": (
        (
            "class Net(",
            "class Meter:\n    def __init__(self):\n        self.total = 0\n\n    def add(self, v):\n        self.total += v\n\n\nclass Net(",
        ),
        (EPOCHS, "    meter = Meter()\n"),
        (STEPPED, "            meter.add(loss.item())\n"),
        (AFTER, "        if meter.total < 1:\n            break\n"),
    ),
    "a rate by the number of samples": (
        (EPOCHS, "    samples = 0\n"),
        (STEPPED, "            samples += len(x)\n            optimizer.param_groups[0]['lr'] = 0.1 / (1 + samples)\n"),
    ),
    "a rate by the loss": ((STEPPED, "            optimizer.param_groups[0]['lr'] = 0.1 * loss.item()\n"),),
    "an accuracy of the share": (
        (BATCHES, "        hits = total = 0\n"),
        (
            STEPPED,
            "            hits += (out.argmax(1) == y).sum().item()\n            total += len(y)\n            accuracy = hits / total\n",
        ),
        (AFTER, "        if accuracy > 0.99:\n            break\n"),
    ),
    "parameters that are added later": (
        ("    criterion = ", "    scale = nn.Parameter(torch.ones(1).cuda())\n    criterion = "),
        (EPOCHS, "    optimizer.add_param_group({'params': [scale]})\n"),
    ),
    "a fixed number of rows": ((MODEL, "            x = x.view(16, -1)\n" + MODEL),),
    "pairs of rows": ((LOSS, "            loss = criterion(out.view(8, 8), y[:8])\n"),),
    "the first sample": ((LOSS, "            loss = criterion(out[0], y[0])\n"),),
    "a loss to a power": ((LOSS, "            loss = criterion(out, y) ** 2\n"),),
}


# Loss, figures and decisions behind the model are those of the whole batch, once its outputs are put together.
WHOLE = {
    name: COUPLED.pop(name)
    for name in [
        "classes have weights",
        "some targets are ignored",
        "losses are added up",
        "losses are added up in the old words",
        "losses stay apart and are weighted",
        "only some samples count",
        "only some samples count, which is known before",
        "the hardest samples count",
        "samples are compared with each other",
        "triplets are found in the batch",
        "features are kept in a bank",
        "outputs are collected over the epoch",
        "an own loss sees the batch",
        "a second loss looks at the batch",
        "the criterion has parameters",
        "a hidden state is carried along",
        "a bad loss is skipped",
        "a bad loss ends the epoch",
        "an output is not always in the loss",
        "a plateau by the loss of the batch",
        "a plateau by the last loss",
        "a best model by the last loss",
        "an end by the last loss",
        "an end by a list of losses",
        "an end by a history",
        "an end by the worst loss",
        "an end by a meter",
        "a rate by the number of samples",
        "a rate by the loss",
        "an accuracy of the share",
        "pairs of rows",
        "the first sample",
        "a loss to a power",
    ]
}


@pytest.mark.parametrize("name", WHOLE)
def test_outputs_and_targets_are_put_together(convert, name: str) -> None:
    conversion = convert(*WHOLE[name])
    assert conversion.way == "distributed", conversion.reason
    assert [d.rule for d in conversion.diagnostics].count("MG405") == 1
    (text,) = [change.after for change in conversion.changes if change.path == "train.py"]
    assert "whole_batch(model(" in text


@pytest.mark.parametrize("name", LEFT_OUT)
def test_what_a_step_leaves_out_has_zeros(convert, name: str) -> None:
    conversion = convert(*LEFT_OUT[name])
    assert conversion.way == "distributed", conversion.reason
    (text,) = [change.after for change in conversion.changes if change.path == "train.py"]
    assert "zeros_for_unused(" in text
    (wrapped,) = [d for d in conversion.diagnostics if d.rule == "MG301"]
    assert "train.py:" in wrapped.message, "the reason names the place"


@pytest.mark.parametrize("name", COUPLED)
def test_the_batch_stays_whole(convert, name: str) -> None:
    conversion = convert(*COUPLED[name])
    assert conversion.way == "call", conversion.reason
    assert conversion.reason.endswith(")"), "the reason names the place"


# Here the program's own batches are shared out, but not by a DistributedSampler: they are not a plain shuffle.
ORDERED: dict[str, tuple[Edit, ...]] = {
    "a sampler of the program's own": (
        (
            LOADER,
            "DataLoader(data, batch_size=args.batch_size, sampler=torch.utils.data.RandomSampler(data, replacement=True))",
        ),
    ),
    "no shuffling": ((LOADER, "DataLoader(data, batch_size=args.batch_size)"),),
}


@pytest.mark.parametrize("name", ORDERED)
def test_the_sampler_stays(convert, name: str) -> None:
    assert convert(*ORDERED[name]).way in ("batch", "call")


# ---------------------------------------------------------------- what may
PLAIN_LOOPS: dict[str, tuple[Edit, ...]] = {
    "a number in a part is set": ((EPOCHS, "    model.module.body.slope = 0.2\n"),),
    "values are written into a part": ((EPOCHS, "    model.module.head.bias.data = torch.zeros(4).cuda()\n"),),
    "a part is replaced before the wrap": (
        (
            "    model = nn.DataParallel(Net()).cuda()\n",
            "    net = Net()\n    net.head = nn.Linear(16, 4)\n    model = nn.DataParallel(net).cuda()\n",
        ),
    ),
    "as it is": (),
    "a progress bar": (("enumerate(loader)", "enumerate(tqdm(loader))"),),
    "a named progress bar": (
        ("        for i, (x, y) in enumerate(loader):", "        bar = tqdm(loader)\n        for x, y in bar:"),
        (STEPPED, "            bar.set_postfix(loss=loss.item())\n"),
    ),
    "rows that are laid out flat": ((MODEL, "            x = x.view(x.size(0), -1)\n" + MODEL),),
    "another name for the model": (
        (EPOCHS, "    network = model\n"),
        (MODEL, "            out = network(x)\n"),
    ),
    "another name for the loader": ((EPOCHS, "    batches = loader\n"), ("enumerate(loader)", "enumerate(batches)")),
    "a batch that is a dictionary": (
        ("for i, (x, y) in enumerate(loader):", "for batch in loader:"),
        ("            x, y = x.cuda(), y.cuda()\n", '            x, y = batch["x"].cuda(), batch["y"].cuda()\n'),
    ),
    "a batch that is moved as a whole": (
        ("for i, (x, y) in enumerate(loader):", "for batch in loader:"),
        ("            x, y = x.cuda(), y.cuda()\n", "            x, y = [t.cuda() for t in batch]\n"),
    ),
    "accumulated gradients": (
        (LOSS, "            loss = criterion(out, y) / 2\n"),
        (
            "            optimizer.zero_grad()\n            loss.backward()\n            optimizer.step()\n",
            "            loss.backward()\n            if (i + 1) % 2 == 0:\n                optimizer.step()\n                optimizer.zero_grad()\n",
        ),
    ),
    "mixed precision": (
        (EPOCHS, '    scaler = torch.amp.GradScaler("cuda")\n'),
        (
            MODEL + LOSS,
            '            with torch.autocast("cuda"):\n                out = model(x)\n                loss = criterion(out, y)\n',
        ),
        (BACKWARD, "            scaler.scale(loss).backward()\n"),
        ("            optimizer.step()\n", "            scaler.step(optimizer)\n            scaler.update()\n"),
    ),
    "a backward pass in each branch": (
        (EPOCHS, '    scaler = torch.amp.GradScaler("cuda")\n'),
        (
            BACKWARD,
            "            if args.epochs > 9:\n                scaler.scale(loss).backward()\n            else:\n                loss.backward()\n",
        ),
    ),
    "a head that is wrapped by itself": (
        (
            "class Net(",
            "class Head(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.out = nn.Linear(4, 4)\n\n"
            "    def forward(self, x, y):\n        return self.out(x) - y[:, None]\n\n\nclass Net(",
        ),
        ("    criterion = ", "    head = nn.DataParallel(Head()).cuda()\n    criterion = "),
        ("SGD(model.parameters()", 'SGD([{"params": model.parameters()}, {"params": head.parameters()}]'),
        (MODEL, "            out = head(model(x), y)\n"),
    ),
    "clipped gradients": ((BACKWARD, BACKWARD + "            nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"),),
    "a schedule by epochs": (
        (EPOCHS, "    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)\n"),
        (AFTER, "        scheduler.step()\n"),
    ),
    "a schedule by steps": (
        (
            EPOCHS,
            "    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=args.epochs * len(loader))\n",
        ),
        (STEPPED, "            scheduler.step()\n"),
    ),
    "a running loss": (
        (BATCHES, "        total = 0.0\n"),
        (STEPPED, "            total += loss.item() * x.size(0)\n"),
        (AFTER, "        print(epoch, total / len(data))\n"),
    ),
    "counted hits": (
        (BATCHES, "        hits = 0\n"),
        (STEPPED, "            hits += (out.argmax(1) == y).sum().item()\n"),
        (AFTER, "        print(epoch, hits)\n"),
    ),
    "a message now and then": (
        (STEPPED, "            if i % 10 == 0:\n                print(epoch, i, loss.item())\n"),
    ),
    "a loss of the functional kind": ((LOSS, "            loss = F.cross_entropy(out, y)\n"),),
    "smoothed labels": ((CRITERION, "nn.CrossEntropyLoss(label_smoothing=0.1)"),),
    "two plain losses": ((LOSS, "            loss = criterion(out, y) + 0.5 * F.cross_entropy(out, y)\n"),),
    "a branch of the model by its mode": (
        (FORWARD, "        if self.training:\n            x = F.dropout(x, 0.1)\n" + FORWARD),
    ),
    "a branch of the model by a size": (
        (FORWARD, "        if x.size(1) > 100:\n            x = self.body(x)\n" + FORWARD),
    ),
    "an argument that is a number": (
        ("def forward(self, x):", "def forward(self, x, step=0):"),
        (MODEL, "            out = model(x, epoch)\n"),
    ),
    "a trainer of functions": (
        (
            "def main():",
            "def train(model, loader, criterion, optimizer, epochs):\n    for epoch in range(epochs):\n        for x, y in loader:\n            optimizer.zero_grad()\n            loss = criterion(model(x.cuda()), y.cuda())\n            loss.backward()\n            optimizer.step()\n\n\ndef main():",
        ),
        (
            PLAIN[PLAIN.index("    # before the epochs") : PLAIN.index("\n\nif __name__")],
            "    train(model, loader, criterion, optimizer, args.epochs)\n",
        ),
    ),
    "a trainer of classes": (
        (
            "def main():",
            "class Trainer:\n    def __init__(self, model, loader):\n        self.model = model\n        self.loader = loader\n        self.criterion = nn.CrossEntropyLoss()\n        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n\n    def train(self, epochs):\n        for epoch in range(epochs):\n            for x, y in self.loader:\n                self.optimizer.zero_grad()\n                loss = self.criterion(self.model(x.cuda()), y.cuda())\n                loss.backward()\n                self.optimizer.step()\n\n\ndef main():",
        ),
        (
            PLAIN[PLAIN.index("    criterion = ") : PLAIN.index("\n\nif __name__")],
            "    Trainer(model, loader).train(args.epochs)\n",
        ),
    ),
    "a frozen part before the wrap": (
        (
            "    model = nn.DataParallel(Net()).cuda()\n",
            "    net = Net()\n    for p in net.body.parameters():\n        p.requires_grad = False\n    model = nn.DataParallel(net).cuda()\n",
        ),
    ),
    "checkpoints": ((AFTER, '        torch.save({"model": model.state_dict(), "epoch": epoch}, "last.pt")\n'),),
}


@pytest.mark.parametrize("name", PLAIN_LOOPS)
def test_the_batch_is_shared_out(convert, name: str) -> None:
    conversion = convert(*PLAIN_LOOPS[name])
    assert conversion.way == "distributed", conversion.reason
    assert not conversion.questions


def test_there_are_enough_of_both() -> None:
    assert len(COUPLED) >= 25 and len(WHOLE) >= 30 and len(PLAIN_LOOPS) >= 20
