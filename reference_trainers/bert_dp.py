"""Train a BERT classifier from scratch with nn.DataParallel: which package does this piece of text come from?

--text takes a folder whose sub-folders are the classes; without it, the packages of Python's standard library are.
--synthetic takes random tokens. Nothing is downloaded: the vocabulary comes from the text, the weights are random.

    python bert_dp.py --size tiny --epochs 3
    python bert_dp.py --size base --synthetic --batch-size 256 --max-length 128
"""

import argparse
import collections
import logging
import os
import random
import re
import sysconfig

import numpy as np
import torch
import torch.nn as nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification

logger = logging.getLogger(__name__)

SIZES = {
    "tiny": dict(vocab_size=4096, hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512),
    "base": dict(
        vocab_size=30522, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072
    ),
    "large": dict(
        vocab_size=30522, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    ),
}
PAD, CLS, SEP, UNK = range(4)
SKIPPED_FOLDERS = {"site-packages", "dist-packages", "test", "tests", "__pycache__", "pydoc_data", "encodings"}


def get_args():
    parser = argparse.ArgumentParser(description="BERT text classification")
    parser.add_argument("--text", default=sysconfig.get_paths()["stdlib"], help="folder with one sub-folder per class")
    parser.add_argument("--synthetic", action="store_true", help="random tokens instead of text")
    parser.add_argument("--samples", default=4000, type=int, help="training samples at most")
    parser.add_argument("--num-classes", default=8, type=int, help="the largest sub-folders are taken")
    parser.add_argument("--max-length", default=64, type=int, help="tokens per sample")
    parser.add_argument("--size", default="tiny", choices=sorted(SIZES))
    parser.add_argument("--dropout", default=0.1, type=float)
    parser.add_argument("--batch-size", default=32, type=int, help="over all GPUs")
    parser.add_argument("--workers", default=2, type=int)
    parser.add_argument("--epochs", default=3, type=int)
    parser.add_argument("--lr", default=1e-3, type=float)
    parser.add_argument("--weight-decay", default=0.01, type=float)
    parser.add_argument("--warmup", default=0.1, type=float, help="share of all steps")
    parser.add_argument("--max-grad-norm", default=1.0, type=float)
    parser.add_argument("--seed", default=42, type=int)
    parser.add_argument("--resume", default=None, help="checkpoint to continue from")
    parser.add_argument("--out", default="runs/bert", help="folder of checkpoints and logs")
    parser.add_argument("--logging-steps", default=20, type=int)
    return parser.parse_args()


def set_seed(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def read_classes(args):
    """Return one (training tokens, validation tokens) pair per class; every fifth file is kept for validation."""
    folders = {}
    for name in sorted(os.listdir(args.text)):
        if name in SKIPPED_FOLDERS or not os.path.isdir(os.path.join(args.text, name)):
            continue
        files = []
        for root, dirs, names in os.walk(os.path.join(args.text, name)):
            dirs[:] = sorted(d for d in dirs if d not in SKIPPED_FOLDERS)
            files += [os.path.join(root, n) for n in sorted(names) if n.endswith((".py", ".txt", ".md", ".rst"))]
        if len(files) >= 5:
            folders[name] = files
    largest = sorted(folders, key=lambda name: -sum(os.path.getsize(f) for f in folders[name]))[: args.num_classes]
    if len(largest) < 2:
        raise ValueError(f"{args.text} has fewer than two sub-folders with five text files; see --text")

    classes = []
    for name in sorted(largest):
        splits = ([], [])
        for i, path in enumerate(folders[name]):
            with open(path, encoding="utf-8", errors="replace") as f:
                splits[i % 5 == 4].extend(re.findall(r"[a-z]+|\d|[^\sa-z\d]", f.read().lower()))
        classes.append(splits)
    logger.info("Classes: %s", ", ".join(sorted(largest)))
    return classes


def load_text(args, vocab_size):
    classes = read_classes(args)
    counts = collections.Counter(word for train_words, _ in classes for word in train_words)
    vocab = {word: i + 4 for i, (word, _) in enumerate(counts.most_common(vocab_size - 4))}

    body = args.max_length - 2
    rng = random.Random(args.seed)
    datasets = []
    for split, limit in ((0, args.samples), (1, args.samples // 4)):
        input_ids, labels = [], []
        for label, words in enumerate(classes):
            pieces = [words[split][i : i + body] for i in range(0, len(words[split]), body)]
            for piece in rng.sample(pieces, min(len(pieces), max(1, limit // len(classes)))):
                ids = [CLS] + [vocab.get(word, UNK) for word in piece] + [SEP]
                input_ids.append(ids + [PAD] * (args.max_length - len(ids)))
                labels.append(label)
        input_ids, labels = torch.tensor(input_ids), torch.tensor(labels)
        datasets.append(TensorDataset(input_ids, (input_ids != PAD).long(), labels))
    return *datasets, len(classes)


def load_synthetic(args, vocab_size):
    generator = torch.Generator().manual_seed(args.seed)
    datasets = []
    for samples in (args.samples, args.samples // 4):
        input_ids = torch.randint(4, vocab_size, (samples, args.max_length), generator=generator)
        labels = torch.randint(args.num_classes, (samples,), generator=generator)
        datasets.append(TensorDataset(input_ids, torch.ones_like(input_ids), labels))
    return *datasets, args.num_classes


def build_optimizer(args, model, total_steps):
    no_decay = ["bias", "LayerNorm.weight"]
    parameters = list(model.named_parameters())
    groups = [
        {
            "params": [p for n, p in parameters if not any(nd in n for nd in no_decay)],
            "weight_decay": args.weight_decay,
        },
        {"params": [p for n, p in parameters if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
    ]
    optimizer = AdamW(groups, lr=args.lr)
    warmup_steps = max(1, int(args.warmup * total_steps))

    def lr_lambda(step):
        if step < warmup_steps:
            return step / warmup_steps
        return max(0.0, (total_steps - step) / max(1, total_steps - warmup_steps))

    return optimizer, LambdaLR(optimizer, lr_lambda)


def train(args, train_loader, model, criterion, optimizer, scheduler, epoch, device):
    model.train()
    running_loss = 0.0
    for step, batch in enumerate(train_loader):
        input_ids, attention_mask, labels = (t.to(device) for t in batch)
        logits = model(input_ids=input_ids, attention_mask=attention_mask).logits
        loss = criterion(logits, labels)

        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.max_grad_norm)
        optimizer.step()
        scheduler.step()

        running_loss += loss.item()
        if (step + 1) % args.logging_steps == 0:
            lr = scheduler.get_last_lr()[0]
            logger.info(
                "Epoch %d step %d/%d: loss %.4f lr %.2e",
                epoch,
                step + 1,
                len(train_loader),
                running_loss / args.logging_steps,
                lr,
            )
            running_loss = 0.0


def evaluate(eval_loader, model, criterion, device):
    model.eval()
    total_loss, correct, total = 0.0, 0, 0
    with torch.no_grad():
        for batch in eval_loader:
            input_ids, attention_mask, labels = (t.to(device) for t in batch)
            logits = model(input_ids=input_ids, attention_mask=attention_mask).logits
            total_loss += criterion(logits, labels).item() * labels.size(0)
            correct += (logits.argmax(dim=1) == labels).sum().item()
            total += labels.size(0)
    return total_loss / total, correct / total


def main():
    args = get_args()
    os.makedirs(args.out, exist_ok=True)
    logging.basicConfig(
        format="%(asctime)s - %(levelname)s - %(message)s",
        level=logging.INFO,
        handlers=[logging.StreamHandler(), logging.FileHandler(os.path.join(args.out, "train.log"))],
    )
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    n_gpu = torch.cuda.device_count()
    logger.info("Device: %s, n_gpu: %d", device, n_gpu)
    set_seed(args.seed)

    vocab_size = SIZES[args.size]["vocab_size"]
    if args.synthetic:
        train_set, eval_set, num_classes = load_synthetic(args, vocab_size)
    else:
        train_set, eval_set, num_classes = load_text(args, vocab_size)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    eval_loader = DataLoader(eval_set, batch_size=args.batch_size, num_workers=args.workers)
    logger.info("%d training and %d validation samples", len(train_set), len(eval_set))

    config = BertConfig(
        num_labels=num_classes,
        max_position_embeddings=max(512, args.max_length),
        hidden_dropout_prob=args.dropout,
        attention_probs_dropout_prob=args.dropout,
        **SIZES[args.size],
    )
    model = BertForSequenceClassification(config)
    model.to(device)
    criterion = nn.CrossEntropyLoss()
    optimizer, scheduler = build_optimizer(args, model, len(train_loader) * args.epochs)

    start_epoch, best_acc = 0, 0.0
    if args.resume:
        checkpoint = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        start_epoch, best_acc = checkpoint["epoch"], checkpoint["best_acc"]
        logger.info("Resumed from %s at epoch %d", args.resume, start_epoch)
    if n_gpu > 1:
        model = nn.DataParallel(model)

    for epoch in range(start_epoch, args.epochs):
        train(args, train_loader, model, criterion, optimizer, scheduler, epoch, device)
        eval_loss, eval_acc = evaluate(eval_loader, model, criterion, device)
        logger.info("Epoch %d: eval loss %.4f accuracy %.4f", epoch, eval_loss, eval_acc)

        model_to_save = model.module if hasattr(model, "module") else model
        checkpoint = {
            "epoch": epoch + 1,
            "model": model_to_save.state_dict(),
            "optimizer": optimizer.state_dict(),
            "scheduler": scheduler.state_dict(),
            "best_acc": max(best_acc, eval_acc),
        }
        torch.save(checkpoint, os.path.join(args.out, "checkpoint.pt"))
        if eval_acc > best_acc:
            best_acc = eval_acc
            torch.save(model_to_save.state_dict(), os.path.join(args.out, "best_model.pt"))
            with open(os.path.join(args.out, "eval_results.txt"), "w") as f:
                f.write(f"epoch = {epoch + 1}\nloss = {eval_loss:.4f}\naccuracy = {eval_acc:.4f}\n")
    logger.info("Best accuracy: %.4f", best_acc)


if __name__ == "__main__":
    main()
