"""Faults planted into right conversions, and changes that are none: each an edit of a pair's texts.

A fault says which kind the first finding must have, and a word of its line.
"""

from __future__ import annotations

from dataclasses import dataclass

Changes = tuple[tuple[str, str], ...]
SEED = "torch.manual_seed(0)\n"
NET = "loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())"
MIXUP = """x, y, share = x.cuda(), y.cuda(), np.random.beta(1.0, 1.0)
        order = torch.randperm(len(x))
        output, cross_entropy = net(share * x + (1 - share) * x[order]), nn.functional.cross_entropy
        loss = share * cross_entropy(output, y) + (1 - share) * cross_entropy(output, y[order])"""
MODEL = "nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3)).cuda()"
STEP = "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"


@dataclass(frozen=True)
class Fault:
    name: str  # a sentence
    pair: str
    after: Changes
    kind: str | tuple[str, ...]
    says: str = ""
    before: Changes = ()


@dataclass(frozen=True)
class Control:
    name: str
    pair: str
    after: Changes
    before: Changes = ()
    notes: str = ""  # a word that a note has to have


UNEVEN = """
class Uneven(nn.DataParallel):
    def scatter(self, inputs, kwargs, device_ids):
        shares = inputs[0][:9], *inputs[0][9:].chunk(len(device_ids) - 1)
        return [(share.to(f"cuda:{i}"),) for i, share in zip(device_ids, shares)], [{}] * len(device_ids)


"""

FAULTS = (
    Fault("set_epoch is forgotten", "mlp", (("    sampler.set_epoch(epoch)\n", ""),), "data", "set_epoch"),
    Fault("the batch is not divided", "mlp", (("64 // world", "64"),), "data", "divided"),
    Fault(
        "the rate is scaled though the batch is kept", "mlp", (("0.1, mom", "0.1 * world, mom"),), "rate", "processes"
    ),
    Fault("the order is not shuffled", "mlp", (("shuffle=True)", "shuffle=False)"),), "data", "order"),
    Fault(
        "there is no DistributedSampler",
        "mlp",
        (("sampler=sampler)", "shuffle=True)"), ("    sampler.set_epoch(epoch)\n", "")),
        "data",
        "same samples",
    ),
    Fault("forward goes through .module", "mlp", (("net(x.cuda())", "net.module(x.cuda())"),), "wrap", ".module"),
    Fault(
        "forward goes through the bare name",
        "mlp",
        (("net(x.cuda())", "bare(x.cuda())"),),
        "wrap",
        "past its wrapper",
    ),
    Fault(
        "the model is not wrapped",
        "mlp",
        (("net = DistributedDataParallel(bare, device_ids=[rank])", "net = bare"),),
        "wrap",
        "rank",
    ),
    Fault(
        "the loss is a sum",
        "mlp",
        (("y.cuda())\n", 'y.cuda(), reduction="sum")\n'),),
        "loss",
        "sum",
        before=(("y.cuda())\n", 'y.cuda(), reduction="sum")\n'),),
    ),
    Fault(
        "class weights are normalised per rank",
        "mlp",
        (("y.cuda())\n", "y.cuda(), torch.tensor([5.0, 1.0, 0.1]).cuda())\n"),),
        "loss",
        "weighs",
        before=(("y.cuda())\n", "y.cuda(), torch.tensor([5.0, 1.0, 0.1]).cuda())\n"),),
    ),
    Fault(
        "the optimizer holds another model's parameters",
        "mlp",
        ((".SGD(net.parameters()", f".SGD({MODEL}.parameters()"),),
        ("gradient", "parameter"),
        "another model",
    ),
    Fault("weight decay is lost", "mlp", (), "settings", before=(("momentum=0.9", "momentum=0.9, weight_decay=0.1"),)),
    Fault("momentum is lost", "mlp", ((", momentum=0.9", ""),), "settings"),
    Fault("dropout is lost", "mlp", (("nn.Dropout(0.3)", "nn.Dropout(0.0)"),), "loss"),
    Fault("drop_last is added", "mlp", (("sampler=sampler", "sampler=sampler, drop_last=True"),), "data"),
    Fault(
        "rank 0 takes one more step",
        "mlp",
        ((STEP, STEP + "        if rank == 0:\n            optimizer.step()\n"),),
        ("data", "ranks"),
    ),
    Fault("the device is not set", "mlp", (('torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n', ""),), "device"),
    Fault(
        "devices are written into the source",
        "mlp",
        ((".cuda()", '.to("cuda:0")'), ('torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))\n', "")),
        "device",
        "own",
    ),
    Fault(
        "data is sharded twice",
        "mlp",
        (
            ("sampler = Dist", "data = torch.utils.data.Subset(data, range(rank, 248, world))\nsampler = Dist"),
            ("64 // world", "64"),
        ),
        "data",
    ),
    Fault(
        "one forward, two backwards",
        "mlp",
        (
            (
                STEP,
                STEP.replace(
                    "loss.backward()", "(loss / 2).backward(retain_graph=True)\n        (loss / 2).backward()"
                ),
            ),
        ),
        "ranks",
        "averaged",
        before=(
            (
                STEP,
                STEP.replace(
                    "loss.backward()", "(loss / 2).backward(retain_graph=True)\n        (loss / 2).backward()"
                ),
            ),
        ),
    ),
    Fault(
        "two forwards, then two backwards",
        "mlp",
        (
            (NET, f"{NET}\n        more = nn.functional.cross_entropy(net(-x.cuda()), y.cuda())"),
            ("loss.b", "more.backward()\n        loss.b"),
        ),
        "ranks",
        "averaged",
        before=(
            (NET, f"{NET}\n        more = nn.functional.cross_entropy(net(-x.cuda()), y.cuda())"),
            ("loss.b", "more.backward()\n        loss.b"),
        ),
    ),
    Fault(
        "layers are unfrozen after the wrap",
        "mlp",
        (
            ("net = Dist", "bare[0].weight.requires_grad_(False)\nnet = Dist"),
            ("optimizer =", "bare[0].weight.requires_grad_(True)\noptimizer ="),
        ),
        "ranks",
        "averaged",
    ),
    Fault(
        "a criterion with parameters is left out",
        "mlp",
        (
            (NET, "loss = nn.functional.cross_entropy(scale(net(x.cuda())), y.cuda())"),
            ("SGD(net.parameters()", "SGD([*net.parameters(), *scale.parameters()]"),
            ("optimizer =", "scale = nn.Linear(3, 3).cuda()\noptimizer ="),
        ),
        "ranks",
        "averaged",
        before=(
            (NET, "loss = nn.functional.cross_entropy(scale(net(x.cuda())), y.cuda())"),
            ("SGD(net.parameters()", "SGD([*net.parameters(), *scale.parameters()]"),
            ("optimizer =", "scale = nn.Linear(3, 3).cuda()\noptimizer ="),
        ),
    ),
    Fault(
        "the sampler's seed differs between ranks",
        "mlp",
        (("shuffle=True)", "shuffle=True, seed=rank)"),),
        ("data", "random"),
        "random numbers",
    ),
    Fault(
        "ranks split batches of samplers that draw unequal numbers",
        "mlp",
        (
            ("sampler = DistributedSampler(data, shuffle=True)\n", "torch.manual_seed(rank)\n"),
            (
                "loader = DataLoader(data, batch_size=64 // world, sampler=sampler)\n",
                "batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(data), 64, False)\n\n\n"
                "class Share:\n    def __len__(self):\n        return len(batches)\n\n"
                "    def __iter__(self):\n        for batch in batches:\n"
                "            yield batch[rank * len(batch) // world : (rank + 1) * len(batch) // world]\n\n\n"
                "loader = DataLoader(data, batch_sampler=Share())\n",
            ),
            ("    sampler.set_epoch(epoch)\n", ""),
        ),
        ("data", "random"),
        "random numbers",
    ),
    Fault(
        "the schedule steps once per process",
        "resnet",
        (("        schedule.step()\n", "        for _ in range(world):\n            schedule.step()\n"),),
        "rate",
        "pace",
    ),
    Fault(
        "BatchNorm is synchronised",
        "resnet",
        (("Net().cuda()", "nn.SyncBatchNorm.convert_sync_batchnorm(Net().cuda())"),),
        ("loss", "buffer"),
    ),
    Fault(
        "ranks augment alike",
        "resnet",
        (("torch.manual_seed(1 + rank)\n    random.seed(1 + rank)", "torch.manual_seed(1)\n    random.seed(1)"),),
        "random",
        "alike",
    ),
    Fault(
        "the metric is that of rank 0's share",
        "resnet",
        (("    dist.all_reduce(counts)\n", ""),),
        "metric",
        "rank 0",
    ),
    Fault(
        "evaluation counts repeated samples",
        "resnet",
        (
            ("held_out = Images(40, False)", "held_out = Images(41, False)"),
            (
                "DataLoader(Subset(held_out, range(rank, len(held_out), world)), batch_size=16 // world)",
                "DataLoader(held_out, 16 // world, sampler=DistributedSampler(held_out, shuffle=False))",
            ),
        ),
        "evaluation",
        "once",
        before=(("Images(40, False)", "Images(41, False)"),),
    ),
    Fault(
        "evaluation runs while the model still trains",
        "resnet",
        (("    net.eval()\n", ""),),
        ("metric", "buffer", "evaluation"),
    ),
    Fault(
        "rank 0 alone evaluates through the wrapper",
        "resnet",
        (
            ("evaluate(net.module, test)", "evaluate(net, test) if rank == 0 else (0.0, 0.0)"),
            ("with torch.no_grad():", "with torch.enable_grad():"),
            ("    dist.all_reduce(counts)\n", ""),
            ("Subset(held_out, range(rank, len(held_out), world))", "held_out"),
            ("        for buffer in net.module.buffers():\n            dist.broadcast(buffer, 0)\n", ""),
        ),
        ("lockstep", "error", "hang"),
    ),
    Fault(
        "the schedule follows the rank's own loss",
        "mlp",
        (
            (
                STEP,
                STEP
                + "        plateau.step(loss.detach() + 10 * (rank == 1) * optimizer.state_dict()['param_groups'][0]['lr'])\n",
            ),
            (
                "for epoch",
                "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.0)\nfor epoch",
            ),
        ),
        "rate",
        "",
        before=(
            (STEP, STEP + "        plateau.step(loss.detach())\n"),
            (
                "for _ in",
                "plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0, threshold=0.0)\nfor _ in",
            ),
        ),
    ),
    Fault(
        "ranks stop early on their own loss",
        "mlp",
        ((STEP, STEP + "        if loss.item() < 1e9 * (rank == 0):\n            break\n"),),
        ("data", "hang", "error", "steps"),
    ),
    Fault(
        "one rank skips a bad batch",
        "mlp",
        ((NET, f"{NET}\n        if rank == 1 and epoch == 1:\n            continue"),),
        ("data", "hang", "error", "wrap"),
    ),
    Fault(
        "mixup permutes inside each rank's share",
        "mlp",
        ((NET, MIXUP), ("import torch\n", "import numpy as np\nimport torch\n")),
        ("data", "loss"),
        "inside each rank's share",
        before=((NET, MIXUP), ("import torch\n", "import numpy as np\nimport torch\n")),
    ),
    Fault("the accumulation's divisor is lost", "accumulation", ((" / 2\n", "\n"),), "loss", "division by 2"),
    Fault("the clipping threshold hides a factor", "bert", (("loss.backward()", "(3 * loss).backward()"),), "loss"),
    Fault("another clipping threshold", "bert", (("model.parameters(), 1.0", "model.parameters(), 0.1"),), "gradient"),
    Fault("a group's weight decay is lost", "bert", (('"weight_decay": 0.01', '"weight_decay": 0.0'),), "settings"),
    Fault(
        "the warm-up is counted in other steps",
        "bert",
        (("(step + 1) / 5", "(step + 1) * world / 5"),),
        "rate",
        "times",
    ),
    Fault("the noise is the same on all ranks", "gan", (("torch.manual_seed(4 + rank)\n", ""),), "random", "noise"),
    Fault(
        "a second network is not wrapped",
        "gan",
        (("critic = DistributedDataParallel(critic, device_ids=[rank])\n", ""),),
        ("ranks", "data"),
        "",
    ),
    Fault(
        "an optimizer steps at another place",
        "gan",
        (
            ("        step_critic.step()\n", ""),
            ("        step_maker.step()\n", "        step_maker.step()\n        step_critic.step()\n"),
        ),
        ("order", "data", "loss"),
    ),
    Fault(
        "the batch is split at the call, but drawn unequally",
        "split",
        (
            (
                "torch.manual_seed(6)\n",
                "torch.manual_seed(6)\ndata = TensorDataset(torch.randn(53, 3, 6, 6))\ntorch.manual_seed(dist.get_rank())\n",
            ),
            ("DataLoader(TensorDataset(torch.randn(53, 3, 6, 6))", "DataLoader(data"),
        ),
        ("data", "random", "loss"),
        "",
    ),
    Fault(
        "the original deals unequal shares, and dropout meets them",
        "mlp",
        (),
        "loss",
        "to its replicas, the converted program",
        before=(("net = nn.DataParallel(", UNEVEN + "net = Uneven("),),
    ),
)

CONTROLS = (
    Control("the program is not seeded", "mlp", (), before=()),
    Control("ranks are seeded alike, and nothing is drawn", "mlp", ()),
    Control(
        "evaluation of everything on every rank",
        "resnet",
        (
            (
                "DataLoader(Subset(held_out, range(rank, len(held_out), world)), batch_size=16 // world)",
                "DataLoader(held_out, batch_size=16)",
            ),
            ("    dist.all_reduce(counts)\n", ""),
        ),
        notes="every rank evaluates everything",
    ),
    Control(
        "rank 0 evaluates the bare model alone, nothing depends on it",
        "resnet",
        (
            (
                "        accuracy, error = evaluate(net.module, test)\n",
                "        accuracy, error = evaluate(net.module, test) if rank == 0 else (0.0, 0.0)\n",
            ),
            (
                "DataLoader(Subset(held_out, range(rank, len(held_out), world)), batch_size=16 // world)",
                "DataLoader(held_out, batch_size=16)",
            ),
            ("    dist.all_reduce(counts)\n", ""),
        ),
        notes="one rank evaluates alone",
    ),
    Control(
        "no_sync is not used",
        "accumulation",
        (("contextlib.nullcontext() if last else net.no_sync()", "contextlib.nullcontext()"),),
        notes="synchronised backward",
    ),
    Control(
        "the optimizer is made before the wrap",
        "mlp",
        (
            (
                "net = DistributedDataParallel(bare, device_ids=[rank])\noptimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)\n",
                "optimizer = torch.optim.SGD(bare.parameters(), 0.1, momentum=0.9)\nnet = DistributedDataParallel(bare, device_ids=[rank])\n",
            ),
        ),
    ),
    Control(
        "find_unused_parameters is given",
        "mlp",
        (("device_ids=[rank])", "device_ids=[rank], find_unused_parameters=True)"),),
    ),
    Control(
        "a sum that is multiplied by the number of ranks",
        "mlp",
        (("y.cuda())\n", 'y.cuda(), reduction="sum") * world\n'),),
        before=(("y.cuda())\n", 'y.cuda(), reduction="sum")\n'),),
    ),
    Control(
        "class weights over the gathered batch",
        "mlp",
        (
            (
                "loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())",
                "weights = torch.tensor([5.0, 1.0, 0.1]).cuda()\n        total = weights[y.cuda()].sum()\n        dist.all_reduce(total)\n"
                "        loss = world * nn.functional.cross_entropy(net(x.cuda()), y.cuda(), weights, reduction='sum') / total",
            ),
        ),
        before=(("y.cuda())\n", "y.cuda(), torch.tensor([5.0, 1.0, 0.1]).cuda())\n"),),
    ),
    Control(
        "the training loss on the screen is rank 0's",
        "mlp",
        (
            (
                "        optimizer.step()\n",
                "        optimizer.step()\n    if rank == 0:\n        print(f'loss {loss.item():.5f}')\n",
            ),
        ),
        before=(("        optimizer.step()\n", "        optimizer.step()\n    print(f'loss {loss.item():.5f}')\n"),),
        notes="rank 0's share",
    ),
    Control(
        "batches are split, drawn by equal samplers",
        "mlp",
        (
            ("sampler = DistributedSampler(data, shuffle=True)\n", "generator = torch.Generator().manual_seed(5)\n"),
            (
                "loader = DataLoader(data, batch_size=64 // world, sampler=sampler)\n",
                "batches = torch.utils.data.BatchSampler(torch.utils.data.RandomSampler(data, generator=generator), 64, False)\n\n\n"
                "class Share:\n    def __len__(self):\n        return len(batches)\n\n"
                "    def __iter__(self):\n        for batch in batches:\n"
                "            yield batch[rank * len(batch) // world : (rank + 1) * len(batch) // world]\n\n\n"
                "loader = DataLoader(data, batch_sampler=Share())\n",
            ),
            ("    sampler.set_epoch(epoch)\n", ""),
        ),
    ),
)
