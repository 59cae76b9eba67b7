import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader

from benchmarks import Stopwatch
from codemods.augment import shifted
from migrator.birds import BirdSongs
from migrator.net import SongNet


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("-b", "--batch-size", default=16, type=int)
    parser.add_argument("--epochs", default=2, type=int)
    args = parser.parse_args()
    torch.manual_seed(17)
    loader = DataLoader(BirdSongs(80), batch_size=args.batch_size, shuffle=True)
    model = SongNet()
    if torch.cuda.device_count() > 1:
        model = nn.DataParallel(model)
    model.cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss().cuda()
    watch = Stopwatch()
    for epoch in range(args.epochs):
        for songs, kinds in loader:
            songs, kinds = shifted(songs).cuda(), kinds.cuda()
            loss = criterion(model(songs), kinds)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} in {watch.lap():.1f} s")
        torch.save(model.state_dict(), "songs.pt")


if __name__ == "__main__":
    main()
