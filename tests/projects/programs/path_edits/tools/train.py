import argparse

import _paths
import torch

from core.functions import train, validate
from core.settings import settings, update_settings
from nets.keypoints import build
from sets.points import KeypointSet


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--width", type=int)
    parser.add_argument("--gpus", type=int, nargs="+")
    update_settings(parser.parse_args())
    torch.manual_seed(settings["SEED"])
    model = build(settings)
    model = torch.nn.DataParallel(model, device_ids=settings["GPUS"]).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["LR"])
    train_loader = torch.utils.data.DataLoader(
        KeypointSet(80, 0), batch_size=settings["BATCH_PER_GPU"] * len(settings["GPUS"]), shuffle=True
    )
    valid_loader = torch.utils.data.DataLoader(
        KeypointSet(20, 1), batch_size=settings["BATCH_PER_GPU"] * len(settings["GPUS"]), shuffle=False
    )
    best = None
    for epoch in range(settings["EPOCHS"]):
        train(train_loader, model, optimizer, epoch)
        error = validate(valid_loader, model)
        if best is None or error < best:
            best = error
            torch.save({"best": best, "state_dict": model.module.state_dict()}, "model_best.pth")


if __name__ == "__main__":
    main()
