import torch
from torch import nn

from core.meters import Mean


def distance(output, target):
    return nn.functional.smooth_l1_loss(output, target)


def train(loader, model, optimizer, epoch):
    losses = Mean()
    model.train()
    for i, (image, points) in enumerate(loader):
        output = model(image.cuda())
        points = points.cuda(non_blocking=True)
        loss = distance(output, points)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.add(loss.item(), image.size(0))
        if i % 2 == 0:
            print(f"{epoch} {i} {losses.value:.5f}")


def validate(loader, model):
    losses = Mean()
    model.eval()
    with torch.no_grad():
        for image, points in loader:
            losses.add(distance(model(image.cuda()), points.cuda()).item(), image.size(0))
    return losses.value
