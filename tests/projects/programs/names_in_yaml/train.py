import argparse

import torch
import yaml

import losses
import models
from utils.data import build_loader
from utils.options import Options


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cfg", default="experiment.yaml")
    parser.add_argument("--gpus", type=int, nargs="+")
    args = parser.parse_args()
    with open(args.cfg) as file:
        options = Options(yaml.safe_load(file))
    if args.gpus:
        options.gpus = args.gpus
    torch.manual_seed(options.seed)

    model = eval("models." + options.model.name + ".get_net")(options.model)
    criterion = getattr(losses, options.loss)()
    loader = build_loader(options)
    model = torch.nn.DataParallel(model, device_ids=options.gpus).cuda()
    optimizer = getattr(torch.optim, options.optimizer.name)(model.parameters(), lr=options.optimizer.lr)

    for epoch in range(options.epochs):
        train(options, loader, model, criterion, optimizer, epoch)
    torch.save(model.module.state_dict(), "final.pth")


def train(options, loader, model, criterion, optimizer, epoch):
    model.train()
    for i, (x, y) in enumerate(loader):
        output = model(x)
        y = y.cuda(non_blocking=True)
        loss = criterion(output, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % options.print_every == 0:
            print(f"Epoch {epoch} [{i}/{len(loader)}] loss {loss.item():.5f}")


if __name__ == "__main__":
    main()
