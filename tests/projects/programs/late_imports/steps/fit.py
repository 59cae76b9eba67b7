def fit(epochs, batch):
    import torch

    from .build import build_model

    torch.manual_seed(9)
    model, optimizer = build_model(torch.cuda.is_available())
    for epoch in range(epochs):
        loss = run_epoch(model, optimizer, batch)
        print("epoch", epoch, "loss", loss)
    torch.save(model.module.state_dict(), "late.pt")


def run_epoch(model, optimizer, batch):
    from .data import open_loader

    loss = None
    for x, y in open_loader(batch):
        loss = ((model(x.cuda()) - y.cuda()) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()
