"""Train a ResNet on images with nn.DataParallel.

Without options it learns scikit-learn's handwritten digits. --data takes a folder with train/ and val/ that hold one
folder of images per class, --synthetic takes random images of the size of ImageNet's.

    python resnet_dp.py --arch resnet8 --epochs 6
    python resnet_dp.py --arch resnet50 --data /path/to/images --batch-size 256 --epochs 90
"""

import argparse
import os
import random
import shutil
import time

import numpy as np
import torch
import torch.backends.cudnn as cudnn
import torch.nn as nn
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch.optim.lr_scheduler import CosineAnnealingLR, MultiStepLR
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.tensorboard import SummaryWriter
from torchvision import datasets, models, transforms
from torchvision.models.resnet import BasicBlock

cifar_depths = {"resnet8": 1, "resnet20": 3}
model_names = [*cifar_depths, "resnet18", "resnet34", "resnet50", "resnet101", "resnet152"]

parser = argparse.ArgumentParser(description="ResNet training")
parser.add_argument("--data", default="", help="image folder with train/ and val/ (default: digits)")
parser.add_argument("--synthetic", action="store_true", help="random images instead of a data set")
parser.add_argument("--synthetic-samples", default=12800, type=int, help="random images per epoch")
parser.add_argument("--image-size", default=224, type=int, help="of --data and --synthetic")
parser.add_argument("--num-classes", default=1000, type=int, help="of --synthetic")
parser.add_argument("-a", "--arch", default="resnet18", choices=model_names)
parser.add_argument("-b", "--batch-size", default=64, type=int, help="over all GPUs")
parser.add_argument("-j", "--workers", default=4, type=int, help="data loading workers")
parser.add_argument("--epochs", default=10, type=int)
parser.add_argument("--lr", default=0.05, type=float)
parser.add_argument("--momentum", default=0.9, type=float)
parser.add_argument("--weight-decay", default=1e-4, type=float)
parser.add_argument("--schedule", default="cosine", choices=["cosine", "step"])
parser.add_argument("--milestones", default=[30, 60, 80], type=int, nargs="+", help="epochs of --schedule step")
parser.add_argument("--seed", default=0, type=int)
parser.add_argument("--resume", default="", help="checkpoint to continue from")
parser.add_argument("-e", "--evaluate", action="store_true", help="only evaluate the model")
parser.add_argument("--out", default="runs/resnet", help="folder of checkpoints and logs")
parser.add_argument("--print-freq", default=10, type=int)

best_acc1 = 0


def main():
    global best_acc1
    args = parser.parse_args()
    random.seed(args.seed)
    np.random.seed(args.seed)
    torch.manual_seed(args.seed)
    use_cuda = torch.cuda.is_available()
    device = torch.device("cuda" if use_cuda else "cpu")
    cudnn.benchmark = True

    train_set, val_set, num_classes = build_datasets(args)
    train_loader = DataLoader(
        train_set, batch_size=args.batch_size, shuffle=True, num_workers=args.workers, pin_memory=use_cuda
    )
    val_loader = DataLoader(
        val_set, batch_size=args.batch_size, shuffle=False, num_workers=args.workers, pin_memory=use_cuda
    )

    print(f"=> creating model {args.arch} on {max(1, torch.cuda.device_count())} device(s)")
    model = build_model(args.arch, num_classes)
    model = nn.DataParallel(model).to(device)
    criterion = nn.CrossEntropyLoss().to(device)
    optimizer = torch.optim.SGD(model.parameters(), args.lr, momentum=args.momentum, weight_decay=args.weight_decay)
    if args.schedule == "cosine":
        scheduler = CosineAnnealingLR(optimizer, T_max=args.epochs)
    else:
        scheduler = MultiStepLR(optimizer, milestones=args.milestones, gamma=0.1)

    start_epoch = 0
    if args.resume:
        if not os.path.isfile(args.resume):
            raise FileNotFoundError(f"no checkpoint at {args.resume}")
        checkpoint = torch.load(args.resume, map_location=device)
        start_epoch = checkpoint["epoch"]
        best_acc1 = checkpoint["best_acc1"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        scheduler.load_state_dict(checkpoint["scheduler"])
        print(f"=> resumed from {args.resume} (epoch {start_epoch}, best accuracy {best_acc1:.2f})")

    if args.evaluate:
        validate(val_loader, model, criterion, device, args)
        return

    os.makedirs(args.out, exist_ok=True)
    writer = SummaryWriter(args.out)
    for epoch in range(start_epoch, args.epochs):
        train_loss, train_acc1 = train(train_loader, model, criterion, optimizer, epoch, device, args)
        val_loss, acc1 = validate(val_loader, model, criterion, device, args)

        writer.add_scalar("train/loss", train_loss, epoch)
        writer.add_scalar("train/acc1", train_acc1, epoch)
        writer.add_scalar("train/lr", optimizer.param_groups[0]["lr"], epoch)
        writer.add_scalar("val/loss", val_loss, epoch)
        writer.add_scalar("val/acc1", acc1, epoch)
        scheduler.step()

        is_best = acc1 > best_acc1
        best_acc1 = max(acc1, best_acc1)
        save_checkpoint(
            {
                "epoch": epoch + 1,
                "arch": args.arch,
                "state_dict": model.state_dict(),
                "best_acc1": best_acc1,
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
            },
            is_best,
            args.out,
        )
    writer.close()
    print(f"best accuracy: {best_acc1:.2f}")


def train(train_loader, model, criterion, optimizer, epoch, device, args):
    batch_time = AverageMeter()
    data_time = AverageMeter()
    losses = AverageMeter()
    top1 = AverageMeter()

    model.train()
    end = time.time()
    for i, (images, target) in enumerate(train_loader):
        data_time.update(time.time() - end)
        images = images.to(device, non_blocking=True)
        target = target.to(device, non_blocking=True)

        output = model(images)
        loss = criterion(output, target)
        acc1, _ = accuracy(output, target, topk=(1, 5))
        losses.update(loss.item(), images.size(0))
        top1.update(acc1.item(), images.size(0))

        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

        batch_time.update(time.time() - end)
        end = time.time()
        if i % args.print_freq == 0:
            print(
                f"Epoch [{epoch}][{i}/{len(train_loader)}]\t"
                f"Time {batch_time.val:.3f} ({batch_time.avg:.3f})\t"
                f"Data {data_time.val:.3f} ({data_time.avg:.3f})\t"
                f"Loss {losses.val:.4f} ({losses.avg:.4f})\t"
                f"Acc@1 {top1.val:.2f} ({top1.avg:.2f})"
            )
    return losses.avg, top1.avg


def validate(val_loader, model, criterion, device, args):
    losses = AverageMeter()
    top1 = AverageMeter()
    top5 = AverageMeter()

    model.eval()
    with torch.no_grad():
        for images, target in val_loader:
            images = images.to(device, non_blocking=True)
            target = target.to(device, non_blocking=True)
            output = model(images)
            loss = criterion(output, target)
            acc1, acc5 = accuracy(output, target, topk=(1, 5))
            losses.update(loss.item(), images.size(0))
            top1.update(acc1.item(), images.size(0))
            top5.update(acc5.item(), images.size(0))
    print(f" * Acc@1 {top1.avg:.3f} Acc@5 {top5.avg:.3f} Loss {losses.avg:.4f}")
    return losses.avg, top1.avg


def build_datasets(args):
    if args.synthetic:
        train_set = SyntheticImages(args.synthetic_samples, args.image_size, args.num_classes, seed=0)
        val_set = SyntheticImages(max(1, args.synthetic_samples // 10), args.image_size, args.num_classes, seed=1)
        return train_set, val_set, args.num_classes
    if args.data:
        to_tensor = [transforms.ToTensor(), transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])]
        augment = [transforms.RandomResizedCrop(args.image_size), transforms.RandomHorizontalFlip()]
        centre = [transforms.Resize(args.image_size * 8 // 7), transforms.CenterCrop(args.image_size)]
        train_set = datasets.ImageFolder(os.path.join(args.data, "train"), transforms.Compose(augment + to_tensor))
        val_set = datasets.ImageFolder(os.path.join(args.data, "val"), transforms.Compose(centre + to_tensor))
        return train_set, val_set, len(train_set.classes)
    return *load_digit_images(), 10


def load_digit_images():
    """1500 training and 297 validation images: 8x8 digits, enlarged to 32x32, three equal channels."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    images = images.repeat_interleave(4, dim=2).repeat_interleave(4, dim=3).expand(-1, 3, -1, -1)
    images = (images - images.mean()) / images.std()
    target = torch.tensor(digits.target)
    train_idx, val_idx = train_test_split(np.arange(len(target)), test_size=297, stratify=digits.target, random_state=0)
    return TensorDataset(images[train_idx], target[train_idx]), TensorDataset(images[val_idx], target[val_idx])


class SyntheticImages(Dataset):
    """Random images with random labels; a few images are drawn and served again and again."""

    def __init__(self, samples, image_size, num_classes, seed):
        generator = torch.Generator().manual_seed(seed)
        self.images = torch.randn(min(samples, 64), 3, image_size, image_size, generator=generator)
        self.target = torch.randint(num_classes, (samples,), generator=generator)

    def __len__(self):
        return len(self.target)

    def __getitem__(self, index):
        return self.images[index % len(self.images)], self.target[index]


def build_model(arch, num_classes):
    if arch in cifar_depths:
        return CifarResNet(cifar_depths[arch], num_classes)
    return getattr(models, arch)(num_classes=num_classes)


class CifarResNet(nn.Module):
    """The small ResNets for 32x32 images: three stages of 16, 32 and 64 channels, 6n + 2 layers."""

    def __init__(self, blocks, num_classes):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(inplace=True))
        self.stage1 = self.make_stage(16, 16, blocks, stride=1)
        self.stage2 = self.make_stage(16, 32, blocks, stride=2)
        self.stage3 = self.make_stage(32, 64, blocks, stride=2)
        self.fc = nn.Linear(64, num_classes)

    def make_stage(self, inplanes, planes, blocks, stride):
        downsample = None
        if stride != 1 or inplanes != planes:
            downsample = nn.Sequential(nn.Conv2d(inplanes, planes, 1, stride, bias=False), nn.BatchNorm2d(planes))
        layers = [BasicBlock(inplanes, planes, stride, downsample)]
        layers += [BasicBlock(planes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        x = self.stage3(self.stage2(self.stage1(self.stem(x))))
        return self.fc(x.mean(dim=(2, 3)))


def save_checkpoint(state, is_best, out):
    filename = os.path.join(out, "checkpoint.pth.tar")
    torch.save(state, filename)
    if is_best:
        shutil.copyfile(filename, os.path.join(out, "model_best.pth.tar"))


class AverageMeter:
    """Computes and stores the average and current value."""

    def __init__(self):
        self.val = 0
        self.avg = 0
        self.sum = 0
        self.count = 0

    def update(self, val, n=1):
        self.val = val
        self.sum += val * n
        self.count += n
        self.avg = self.sum / self.count


def accuracy(output, target, topk=(1,)):
    """The share of samples, in percent, whose label is among the k best guesses, for each k."""
    with torch.no_grad():
        _, pred = output.topk(min(max(topk), output.size(1)), dim=1)
        correct = pred.eq(target.view(-1, 1))
        return [correct[:, :k].any(dim=1).float().mean() * 100 for k in topk]


if __name__ == "__main__":
    main()
