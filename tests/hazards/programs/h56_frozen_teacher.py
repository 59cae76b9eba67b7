"""A network without anything to train is wrapped to run on all devices."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(48, 6)), batch_size=8, shuffle=True)
    teacher = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 3)).cuda()
    for parameter in teacher.parameters():
        parameter.requires_grad = False
    teacher = nn.DataParallel(teacher).eval()
    student = nn.DataParallel(nn.Linear(6, 3).cuda())
    optimizer = torch.optim.Adam(student.parameters(), lr=0.01)
    for epoch in range(2):
        for (x,) in loader:
            with torch.no_grad():
                wanted = teacher(x.cuda())
            loss = nn.functional.mse_loss(student(x.cuda()), wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
