import torch


class AverageMeter:
    def __init__(self):
        self.sum = self.count = 0

    def update(self, value, n=1):
        self.sum += value * n
        self.count += n

    @property
    def avg(self):
        return self.sum / max(self.count, 1)


def train_one_epoch(net, loader, criterion, optimizer, device):
    net.train()
    losses = AverageMeter()
    for points, labels in loader:
        points, labels = points.to(device), labels.to(device)
        loss = criterion(net(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.update(loss.item(), points.size(0))
    return losses.avg


@torch.no_grad()
def evaluate(net, loader, device):
    net.eval()
    right = seen = 0
    for points, labels in loader:
        predicted = net(points.to(device)).argmax(1)
        right += (predicted == labels.to(device)).sum().item()
        seen += labels.size(0)
    return 100.0 * right / seen
