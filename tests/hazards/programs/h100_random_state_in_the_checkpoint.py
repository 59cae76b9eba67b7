"""The state of the random numbers is saved, and restored when training goes on."""

import os

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 4), torch.randint(2, (48,))), batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.2), nn.Linear(8, 2))).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = 0
    if os.path.exists("state.pt"):
        state = torch.load("state.pt", map_location="cpu")
        model.load_state_dict(state["model"])
        torch.set_rng_state(state["random"])
        first = state["epoch"] + 1
    for epoch in range(first, first + 2):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        state = {"model": model.state_dict(), "random": torch.get_rng_state(), "epoch": epoch}
        torch.save(state, "state.pt")


if __name__ == "__main__":
    main()
