"""Models that compute their own loss, as those of transformers do: the mean over devices, and evaluations that take it too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from codemods.options import Options
from migrator.convert.pipeline import Conversion, convert_program
from migrator.load.source import Source
from migrator.verify import ForkServer

from .trained import check_equal

FINETUNE = """\
import argparse
import glob
import logging
import os

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from tqdm import tqdm, trange

logger = logging.getLogger(__name__)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 8)
        self.kinds = nn.Embedding(2, 8)
        self.head = nn.Linear(8, 3)

    def forward(self, words, mask=None, kinds=None, labels=None):
        hidden = self.words(words)
        if kinds is not None:
            hidden = hidden + self.kinds(kinds)
        scores = self.head((hidden * mask[..., None]).sum(1))
        outputs = (scores,)
        if labels is not None:
            weights = torch.tensor([0.2, 1.0, 3.0]).to(scores)
            outputs = (nn.functional.cross_entropy(scores, labels, weights),) + outputs
        return outputs


def make_data(n, seed):
    g = torch.Generator().manual_seed(seed)
    words = torch.randint(20, (n, 5), generator=g)
    return TensorDataset(words, (words > 3).float(), words % 2, words[:, 0] % 3)


def set_seed(args):
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)


def train(args, train_dataset, model):
    args.train_batch_size = args.per_gpu_train_batch_size * max(1, args.n_gpu)
    train_sampler = RandomSampler(train_dataset) if args.local_rank == -1 else DistributedSampler(train_dataset)
    train_dataloader = DataLoader(train_dataset, sampler=train_sampler, batch_size=args.train_batch_size)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    # before the wrap
    if args.n_gpu > 1:
        model = torch.nn.DataParallel(model)
    if args.local_rank != -1:
        model = torch.nn.parallel.DistributedDataParallel(
            model, device_ids=[args.local_rank], output_device=args.local_rank, find_unused_parameters=True
        )
    global_step = 0
    tr_loss, logging_loss = 0.0, 0.0
    model.zero_grad()
    train_iterator = trange(int(args.num_train_epochs), desc="Epoch", disable=args.local_rank not in [-1, 0])
    set_seed(args)
    for _ in train_iterator:
        epoch_iterator = tqdm(train_dataloader, desc="Iteration", disable=args.local_rank not in [-1, 0])
        for step, batch in enumerate(epoch_iterator):
            model.train()
            batch = tuple(t.to(args.device) for t in batch)
            inputs = {"words": batch[0], "mask": batch[1], "labels": batch[3]}
            if args.model_type != "plain":
                inputs["kinds"] = batch[2] if args.model_type in ["marked"] else None
            outputs = model(**inputs)
            loss = outputs[0]
            if args.n_gpu > 1:
                loss = loss.mean()
            if args.gradient_accumulation_steps > 1:
                loss = loss / args.gradient_accumulation_steps
            loss.backward()
            tr_loss += loss.item()
            if (step + 1) % args.gradient_accumulation_steps == 0:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                model.zero_grad()
                global_step += 1
                if args.local_rank in [-1, 0] and global_step % args.logging_steps == 0:
                    results = evaluate(args, model)
                    logger.info("%s %s", results, (tr_loss - logging_loss) / args.logging_steps)
                    logging_loss = tr_loss
            if args.max_steps > 0 and global_step > args.max_steps:
                epoch_iterator.close()
                break
    return global_step, tr_loss / global_step


def evaluate(args, model):
    eval_dataset = make_data(19, 1)
    eval_sampler = SequentialSampler(eval_dataset)
    eval_dataloader = DataLoader(eval_dataset, sampler=eval_sampler, batch_size=4 * max(1, args.n_gpu))
    if args.n_gpu > 1 and not isinstance(model, torch.nn.DataParallel):
        model = torch.nn.DataParallel(model)
    eval_loss, steps, preds = 0.0, 0, None
    for batch in tqdm(eval_dataloader, desc="Evaluating"):
        model.eval()
        batch = tuple(t.to(args.device) for t in batch)
        with torch.no_grad():
            outputs = model(batch[0], mask=batch[1], labels=batch[3])
            tmp_eval_loss, scores = outputs[:2]
            eval_loss += tmp_eval_loss.mean().item()
        steps += 1
        rows = scores.argmax(1).cpu().numpy()
        preds = rows if preds is None else np.append(preds, rows, axis=0)
    result = {"loss": eval_loss / steps, "right": int((preds == 1).sum())}
    print(result)
    return result


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model_type", default="marked")
    parser.add_argument("--output_dir", default="out")
    parser.add_argument("--per_gpu_train_batch_size", default=4, type=int)
    parser.add_argument("--gradient_accumulation_steps", type=int, default=2)
    parser.add_argument("--learning_rate", default=5e-2, type=float)
    parser.add_argument("--num_train_epochs", default=2.0, type=float)
    parser.add_argument("--max_steps", default=-1, type=int)
    parser.add_argument("--logging_steps", type=int, default=2)
    parser.add_argument("--local_rank", type=int, default=-1)
    parser.add_argument("--no_cuda", action="store_true")
    parser.add_argument("--fp16", action="store_true")
    parser.add_argument("--eval_all_checkpoints", action="store_true")
    parser.add_argument("--seed", type=int, default=42)
    args = parser.parse_args()
    if args.local_rank == -1 or args.no_cuda:
        device = torch.device("cuda" if torch.cuda.is_available() and not args.no_cuda else "cpu")
        args.n_gpu = torch.cuda.device_count()
    else:
        torch.cuda.set_device(args.local_rank)
        device = torch.device("cuda", args.local_rank)
        torch.distributed.init_process_group(backend="nccl")
        args.n_gpu = 1
    args.device = device
    set_seed(args)
    model = Tagger()
    model.to(args.device)
    global_step, tr_loss = train(args, make_data(48, 0), model)
    os.makedirs(args.output_dir, exist_ok=True)
    torch.save(model.state_dict(), os.path.join(args.output_dir, "model.bin"))
    checkpoints = [args.output_dir]
    if args.eval_all_checkpoints:
        checkpoints = sorted(os.path.dirname(c) for c in glob.glob(args.output_dir + "/**/model.bin", recursive=True))
    for checkpoint in checkpoints:
        model = Tagger()
        model.load_state_dict(torch.load(os.path.join(checkpoint, "model.bin")))
        model.to(args.device)
        evaluate(args, model)


if __name__ == "__main__":
    main()
"""
TARGETS = [Options(), Options(target="accelerate")]
Edit = tuple[str, str]
CALL = "            outputs = model(**inputs)\n            loss = outputs[0]\n"
MEAN = "                loss = loss.mean()\n"
GIVES = "        return outputs\n"
HELD = 'inputs = {"words": batch[0], "mask": batch[1], "labels": batch[3]}'
LOADER = "    eval_dataloader = DataLoader(eval_dataset, sampler=eval_sampler"
EVALUATION = "    eval_dataset = make_data(19, 1)\n"
RESULTS = "                    results = evaluate(args, model)\n"
# What must keep each process from going on with the loss of its share.
GATHERED: dict[str, tuple[Edit, ...]] = {
    "losses are added up": ((MEAN, MEAN.replace("mean", "sum")),),
    "the model may give one tensor": (
        (GIVES, "        return outputs if labels is None else torch.stack([outputs[0], outputs[0]])\n"),
    ),
    "the mean is of some samples": ((CALL, CALL.replace("outputs[0]", "outputs[0][:1]")),),
}
WHOLE: dict[str, tuple[Edit, ...]] = {
    "a table outlives its step": (
        ("    global_step = 0\n", "    global_step = 0\n    inputs = {}\n"),
        (HELD, 'inputs["words"] = batch[0]; inputs["mask"] = batch[1]; inputs["labels"] = batch[3]'),
    ),
    "an evaluation draws its samples": (
        (
            EVALUATION,
            "    eval_dataset = torch.utils.data.Subset(make_data(40, 1), torch.randperm(40)[:19].tolist())\n",
        ),
    ),
    "an evaluation shuffles": ((LOADER, LOADER.replace("sampler=eval_sampler", "shuffle=True")),),
    "some processes evaluate": ((RESULTS, RESULTS.replace("evaluate(", "os.path.exists('wanted') and evaluate(")),),
}

# An evaluation that stands in the step itself, over a loader of the same name as others.
BESIDE = """\
                if global_step % args.logging_steps == 0:
                    eval_loader = DataLoader(eval_data, sampler=SequentialSampler(eval_data), batch_size=8)
                    eval_loss, count = 0.0, 0
                    model.eval()
                    for batch in eval_loader:
                        batch = tuple(t.to(args.device) for t in batch)
                        with torch.no_grad():
                            tmp_loss, _ = model(batch[0], mask=batch[1], labels=batch[3])[:2]
                        eval_loss += tmp_loss.sum().item()
                        count += 1
                    if eval_loss < best:
                        best = eval_loss
                    logger.info("%s %s", eval_loss / count, (tr_loss - logging_loss) / args.logging_steps)
                    logging_loss = tr_loss
                    eval_loader = DataLoader(train_dataset, batch_size=4)
"""
LOGS = FINETUNE[
    FINETUNE.index("                if args.local_rank in") : FINETUNE.index("            if args.max_steps > 0")
]
START = "    global_step = 0\n"
BEFORE: Edit = (START, START + "    best = 1e6\n    eval_data = make_data(19, 1)\n")
IN_STEP: tuple[Edit, ...] = ((LOGS, BESIDE), BEFORE)
APART: dict[str, tuple[Edit, ...]] = {
    "it reads the step's batch": (
        (LOGS, BESIDE.replace("labels=batch[3])", "labels=inputs['labels'])")),
        BEFORE,
    ),
    "it draws": (
        (LOGS, BESIDE.replace("count += 1", "count += np.random.rand()")),
        BEFORE,
    ),
}
APEX: tuple[Edit, ...] = (
    (
        "    # before the wrap\n",
        "    if args.fp16:\n        from apex import amp\n\n"
        '        model, optimizer = amp.initialize(model, optimizer, opt_level="O1")\n',
    ),
    (
        "            loss.backward()\n",
        "            if args.fp16:\n                with amp.scale_loss(loss, optimizer) as scaled_loss:\n"
        "                    scaled_loss.backward()\n            else:\n                loss.backward()\n",
    ),
)
BRANCH = FINETUNE[FINETUNE.index("    if args.n_gpu > 1:\n        model =") : FINETUNE.index("    global_step = 0\n")]
OTHERWISE: Edit = (
    BRANCH,
    "    if args.local_rank != -1:\n        from apex.parallel import DistributedDataParallel as DDP\n\n"
    "        model = DDP(model)\n    elif args.n_gpu > 1:\n        model = torch.nn.DataParallel(model)\n",
)
ADAMW = "torch.optim.AdamW(model.parameters(), lr=args.learning_rate)"
OPTIMIZERS: dict[str, tuple[Edit, ...]] = {
    "of an old library": (
        ("import numpy as np\n", "import numpy as np\nfrom pytorch_transformers import AdamW\n"),
        (ADAMW, ADAMW.removeprefix("torch.optim.")),
    ),
    "of the program's own": (
        ("def set_seed(", "class Warm(torch.optim.Optimizer):\n    pass\n\n\ndef set_seed("),
        (ADAMW, ADAMW.replace("torch.optim.AdamW", "Warm")),
    ),
}


def edited(*changes: Edit) -> str:
    text = FINETUNE
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def convert(*changes: Edit, options: Options = TARGETS[0]) -> Conversion:
    text = edited(*changes)
    compile(text, "train.py", "exec")
    return convert_program(Path("train.py"), options, Source("train.py", text))


def test_each_process_has_the_loss_of_its_share() -> None:
    conversion = convert()
    assert conversion.way == "distributed" and "whole batch" not in conversion.reason, conversion.reason
    (after,) = [change.after for change in conversion.changes if change.path == "train.py"]
    assert "outputs = model(**inputs)" in after
    assert "train_sampler = DistributedSampler(train_dataset, seed=torch.initial_seed())\n" in after
    assert "for epoch in train_iterator" in after and "sampler.set_epoch(epoch)" in after
    assert "tr_loss, logging_loss = mean_over_ranks(tr_loss, logging_loss)" in after


def test_an_evaluation_that_averages_over_devices_does_so_over_processes() -> None:
    (after,) = [change.after for change in convert().changes if change.path == "train.py"]
    assert "outputs = in_shares(model)(batch[0], mask=batch[1], labels=batch[3])" in after
    assert "for checkpoint in from_rank_zero(checkpoints):" in after
    assert "isinstance(model" not in after and " = torch.nn.DataParallel(" not in after


@pytest.mark.parametrize("name", GATHERED)
def test_outputs_are_put_together_where(name: str) -> None:
    conversion = convert(*GATHERED[name])
    assert conversion.way == "call" or "the loss sees the whole batch" in conversion.reason, conversion.reason


@pytest.mark.parametrize("name", WHOLE)
def test_the_batch_stays_whole_where(name: str) -> None:
    assert convert(*WHOLE[name]).way == "call"


def test_an_evaluation_in_the_step_is_none_of_its_calls() -> None:
    conversion = convert(*IN_STEP)
    assert conversion.way == "distributed", conversion.reason
    (after,) = [change.after for change in conversion.changes if change.path == "train.py"]
    assert "tmp_loss, _ = in_shares(model)(batch[0]" in after


@pytest.mark.parametrize("name", APART)
def test_an_evaluation_in_the_step_keeps_the_batch_whole_where(name: str) -> None:
    assert convert(*APART[name]).way == "call"


@pytest.mark.parametrize("options", TARGETS, ids=["ddp", "accelerate"])
def test_a_wrap_in_an_elif_goes_behind_the_whole_choice(options: Options) -> None:
    conversion = convert(OTHERWISE, options=options)
    assert conversion.way == "distributed" and not conversion.questions, conversion.questions
    wrapped = {"ddp": "wrap_model(", "accelerate": "accelerator.prepare("}[options.target]
    (after,) = [change.after for change in conversion.changes if change.path == "train.py"]
    assert re.search(r"\n    elif args\.n_gpu > 1:\n        pass\n    \w[\w, ]* = " + re.escape(wrapped), after), after


def test_a_loss_that_apex_scales_is_the_same_loss() -> None:
    conversion = convert(*APEX)
    assert conversion.way == "distributed", conversion.reason
    assert [d.rule for d in conversion.questions] == ["MG404"]


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_is_known(name: str) -> None:
    conversion = convert(*OPTIMIZERS[name])
    assert conversion.way == "distributed", conversion.reason


def test_an_optimizer_that_trains_something_else_as_well_is_seen() -> None:
    beside = (ADAMW, "Warm([*model.parameters(), *nn.Linear(2, 2).parameters()], lr=args.learning_rate)")
    assert convert(OPTIMIZERS["of the program's own"][0], beside).way == "call"


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer(preload=("numpy", "tqdm")) as server:
        yield server


@pytest.mark.parametrize("options", TARGETS, ids=["ddp", "accelerate"])
def test_it_trains_and_evaluates_the_same(
    options: Options, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_equal(FINETUNE, tmp_path, server, monkeypatch, options=options)


@pytest.mark.long
@pytest.mark.parametrize("options", TARGETS, ids=["ddp", "accelerate"])
def test_it_trains_the_same_with_an_evaluation_in_the_step(
    options: Options, tmp_path: Path, server: ForkServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_equal(edited(*IN_STEP), tmp_path, server, monkeypatch, options=options)
