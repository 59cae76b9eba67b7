class Watcher:
    """Counts how often a part of the network runs."""

    def __init__(self, model):
        self.calls = 0
        model.module[1].register_forward_hook(self.saw)

    def saw(self, module, inputs, output):
        self.calls += 1


def step(model, optimizer, criterion, x, y):
    optimizer.zero_grad()
    loss = criterion(model(x.cuda()).squeeze(1), y.cuda())
    loss.backward()
    optimizer.step()
    return loss.item()
