import argparse

import torch
import torch.nn as nn

from datasets import get_loaders
from engine import evaluate, train_one_epoch
from nets import build_net

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=24)
parser.add_argument("--epochs", type=int, default=2)
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--dataset", default="rings", choices=["rings", "stripes"])
parser.add_argument("--seed", type=int, default=5)


def main():
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_loader, test_loader, classes = get_loaders(args)
    net = build_net(classes).to(device)
    if torch.cuda.device_count() > 1:
        print("using", torch.cuda.device_count(), "GPUs")
        net = nn.DataParallel(net)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [1])
    best = 0.0
    for epoch in range(args.epochs):
        loss = train_one_epoch(net, train_loader, criterion, optimizer, device)
        accuracy = evaluate(net, test_loader, device)
        schedule.step()
        print(f"{epoch}: loss {loss:.4f} accuracy {accuracy:.2f}")
        if accuracy > best:
            best = accuracy
            torch.save(net.state_dict(), f"best_{args.dataset}.pt")


if __name__ == "__main__":
    main()
