import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from model import Net
from third_party.trackbook import Track


def main():
    torch.manual_seed(3)
    track = Track("runs", name="vendored")
    x = torch.randn(64, 6)
    loader = DataLoader(TensorDataset(x, (x > 0).sum(1).clamp(max=3)), batch_size=16, shuffle=True)
    model = nn.DataParallel(Net()).cuda()
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(2):
        for x, y in loader:
            loss = criterion(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        track.log(epoch=epoch, loss=loss.item())
    track.close()


if __name__ == "__main__":
    main()
