import argparse
import json

import torch
from torch import nn, optim

from data.digits import DigitsLoader
from models.convnet import ConvNet
from trainer import DigitsTrainer


def main(config):
    torch.manual_seed(config["seed"])
    loader = DigitsLoader(**config["loader"])
    model = ConvNet(config["width"])
    optimizer = optim.SGD(model.parameters(), **config["optimizer"])
    schedule = optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.5)
    trainer = DigitsTrainer(model, nn.CrossEntropyLoss(), optimizer, config, loader, loader.held_out(), schedule)
    trainer.train()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Digits")
    parser.add_argument("-c", "--config", default="config.json")
    with open(parser.parse_args().config) as file:
        main(json.load(file))
