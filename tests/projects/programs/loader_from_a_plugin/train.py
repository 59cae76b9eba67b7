import torch
from torch import nn

import plugins
from net import Classifier


def main():
    torch.manual_seed(2)
    source = plugins.load("stars")
    model = nn.DataParallel(Classifier()).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in source:  # reported: MG905
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    torch.save(model.module.state_dict(), "stars.pt")


if __name__ == "__main__":
    main()
