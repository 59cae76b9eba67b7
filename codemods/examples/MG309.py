# %% changed in file
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    loader = DataLoader(TensorDataset(torch.randn(64, 4), torch.randint(2, (64,))), batch_size=16)
    model = nn.DataParallel(nn.Linear(4, 2))
    model.load_state_dict(torch.load("model.pt", map_location="cpu"))
    model.eval()
    correct = 0
    with torch.no_grad():
        for inputs, targets in loader:
            correct += (model(inputs).argmax(1) == targets).sum().item()
    print(correct / 64)


if __name__ == "__main__":
    main()

# %% left alone
pass
