"""What generated code costs: a converted program against the DistributedDataParallel program that an expert writes by hand.

    python -m benchmarks.generated_against_expert [--pairs 20] [--world 2]

In: nothing but torch and scipy.  Out: the table of `step_cost`; the other ways to share a batch stand beside the generated
program, with fewer pairs.  Exit code 1 when it makes other collective calls than the expert's, or needs more operators or time.
"""

from __future__ import annotations

import sys

from benchmarks.original import COMMON, ORIGINAL
from benchmarks.step_cost import Compared, Form, main
from codemods.options import Options

# The original by hand.
EXPERT = (
    COMMON.format(
        imports="import torch.distributed as dist", samplers=", Subset\nfrom torch.utils.data import DistributedSampler"
    ).replace("from torch import nn\n", "from torch import nn\nfrom torch.nn.parallel import DistributedDataParallel\n")
    + """

def setup():
    if torch.cuda.is_available():
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl")
    else:
        dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def evaluate(model, loader, device):
    for buffer in model.buffers():
        dist.broadcast(buffer, src=0)
    model.eval()
    counts = torch.zeros(2, dtype=torch.float64, device=device)
    with torch.no_grad():
        for inputs, targets in loader:
            inputs, targets = inputs.to(device), targets.to(device)
            counts[0] += (model(inputs).argmax(1) == targets).sum().item()
            counts[1] += targets.size(0)
    dist.all_reduce(counts)
    correct, total = counts.tolist()
    return correct / total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    rank, world_size = setup()
    torch.manual_seed(0)
    device = torch.device("cuda", torch.cuda.current_device()) if torch.cuda.is_available() else torch.device("cpu")
    train_set, test_set = images(256), images(64)
    assert args.batch_size % world_size == 0
    sampler = DistributedSampler(train_set, drop_last=True)
    train_loader = DataLoader(train_set, batch_size=args.batch_size // world_size, sampler=sampler, drop_last=True)
    own = Subset(test_set, range(rank, len(test_set), world_size))
    test_loader = DataLoader(own, batch_size=args.batch_size)
    net = Net().to(device)
    model = DistributedDataParallel(net, device_ids=[device.index] if device.type == "cuda" else None)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs)
    torch.manual_seed(rank)
    best = 0.0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for inputs, targets in train_loader:
            inputs, targets = inputs.to(device), targets.to(device)
            loss = criterion(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        scheduler.step()
        mean = torch.tensor(total / len(train_loader) / world_size, dtype=torch.float64, device=device)
        dist.all_reduce(mean)
        accuracy = evaluate(net, test_loader, device)
        if rank == 0:
            print(f"epoch {epoch}: loss {mean.item():.4f}, accuracy {accuracy:.4f}")
        if accuracy >= best:
            best = accuracy
            if rank == 0:
                torch.save(model.state_dict(), "best.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""
)
GENERATED, BY_HAND = "generated", "expert"
FORMS: dict[str, Form] = {
    BY_HAND: (EXPERT, None),
    GENERATED: (ORIGINAL, Options()),
    "--loss global": (ORIGINAL, Options(loss="global")),
    "--sampling batch": (ORIGINAL, Options(sampling="batch")),
    "--sampling call": (ORIGINAL, Options(sampling="call")),
}
COMPARED = (
    Compared(GENERATED, BY_HAND, "same"),
    *(Compared(form, BY_HAND) for form in ("--loss global", "--sampling batch", "--sampling call")),
)

if __name__ == "__main__":
    sys.exit(main(__doc__ or "", FORMS, COMPARED))
