import argparse
import sys

import torch

sys.path.append(".")
from shapes.config import Config
from shapes.registry import DATASETS, MODELS, OPTIMIZERS
from shapes.runner import Runner


def parse_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", default="configs/small.json")
    parser.add_argument("--gpus", type=int, nargs="+")
    return parser.parse_args()


def main():
    args = parse_args()
    cfg = Config.from_file(args.config)
    torch.manual_seed(cfg.seed)
    dataset = DATASETS.build(cfg.dataset)
    gpus = args.gpus or list(cfg.gpus)
    loader = torch.utils.data.DataLoader(
        dataset,
        batch_size=cfg.train.batch_size_per_gpu * len(gpus),
        shuffle=cfg.train.shuffle,
        num_workers=cfg.workers,
        pin_memory=True,
    )
    model = MODELS.build(cfg.model)
    model = torch.nn.DataParallel(model, device_ids=gpus).cuda()
    optimizer = OPTIMIZERS.build(cfg.optimizer, model.parameters())
    Runner(model, optimizer, loader, cfg).run()


if __name__ == "__main__":
    main()
