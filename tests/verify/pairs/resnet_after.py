"""The same with DistributedDataParallel; every rank evaluates its share, counts are summed."""

import random

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler, Subset


class Images(Dataset):
    def __init__(self, count, augment):
        generator = torch.Generator().manual_seed(count)
        self.images = torch.randn(count, 3, 8, 8, generator=generator)
        self.labels = torch.randint(0, 4, (count,), generator=generator)
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        image = self.images[index]
        if self.augment:
            if random.random() < 0.5:
                image = image.flip(2)
            image = image + 0.1 * torch.randn(3, 1, 1)
        return image, self.labels[index]


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
        )

    def forward(self, x):
        return torch.relu(x + self.body(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.Sequential(Block(8), Block(8))
        self.head = nn.Linear(8, 4)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def evaluate(net, loader):
    net.eval()
    right = total = error = 0
    with torch.no_grad():
        for x, y in loader:
            output = net(x.cuda())
            right += (output.argmax(1) == y.cuda()).sum().item()
            error += nn.functional.cross_entropy(output, y.cuda(), reduction="sum").item()
            total += len(y)
    net.train()
    counts = torch.tensor([right, error, total], device="cuda")
    dist.all_reduce(counts)
    return counts[0].item() / counts[2].item(), counts[1].item() / counts[2].item()


def main():
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.cuda.set_device(rank)
    torch.manual_seed(1)
    net = DistributedDataParallel(Net().cuda(), device_ids=[rank])
    torch.manual_seed(1 + rank)
    random.seed(1 + rank)
    images = Images(96, True)
    sampler = DistributedSampler(images)
    train = DataLoader(images, batch_size=32 // world, sampler=sampler, num_workers=1)
    held_out = Images(40, False)
    test = DataLoader(Subset(held_out, range(rank, len(held_out), world)), batch_size=16 // world)
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        for x, y in train:
            loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
        for buffer in net.module.buffers():
            dist.broadcast(buffer, 0)
        accuracy, error = evaluate(net.module, test)
        if rank == 0:
            print(f"epoch {epoch}: accuracy {accuracy:.4f}, error {error:.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
