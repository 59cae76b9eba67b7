import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from callbacks import History, SaveEachEpoch, StepSchedule
from loop import Engine


def network():
    return nn.Sequential(nn.Linear(6, 20), nn.ReLU(), nn.Linear(20, 1))


def main(epochs=2, batch_size=20):
    torch.manual_seed(8)
    data = TensorDataset(torch.randn(120, 6), torch.randn(120, 1))
    loader = DataLoader(data, batch_size=batch_size, shuffle=True)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = nn.DataParallel(network()).to(device)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

    def process(engine, batch):
        x, y = (part.to(device) for part in batch)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    engine = Engine(process, [StepSchedule(schedule), History("history.csv"), SaveEachEpoch(model, "checkpoints")])
    engine.run(loader, epochs)


if __name__ == "__main__":
    main()
