"""bfloat16 is chosen outside the model; DataParallel's threads did not hear of it."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(48, 5), torch.randint(3, (48,)))
    loader = DataLoader(data, batch_size=8, shuffle=True)
    model = nn.DataParallel(nn.Linear(5, 3)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(2):
        for x, y in loader:
            with torch.autocast("cuda", dtype=torch.bfloat16):  # reported: MG315
                output = model(x.cuda())
            loss = nn.functional.cross_entropy(output.float(), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


if __name__ == "__main__":
    main()
