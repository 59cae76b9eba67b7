"""What a check costs: CPU seconds of both sides, of the recording hooks, and the fork server's memory.

    python -m benchmarks.verify_cost [--steps 8] [--batch 128]

In: nothing but the machine.  Out: a table with the figures that the checker has to keep.  Times are CPU times of
whole process trees.  A busy machine lengthens those too (shared caches and memory: half as much again was seen), so the
column "alone" has the CPU time of the same steps in plain torch on this machine, one process, no checker, measured right
before and after; twice that is the least that a check can cost, as it trains on both sides, and "ratio" is what it did cost
by that measure: 1.0 is nothing but the training (shares of a batch, which fit into the caches, may take a little less).
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from migrator.verify import ForkServer, VerifyRequest, record_before, verify

MLP = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset{imports}
    {start}
    torch.manual_seed(0)
    data = TensorDataset(torch.randn(256, 10), torch.randint(0, 3, (256,)))
    loader = DataLoader(data, {loader})
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3)).cuda()
    net = {wrap}
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    for epoch in range(3):
        {epoch}
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
RESNET = """
    import torch
    import torchvision
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset{imports}
    {start}
    torch.manual_seed(0)
    data = TensorDataset(torch.randn({batch} * 4, 3, 32, 32), torch.randint(0, 10, ({batch} * 4,)))
    loader = DataLoader(data, {loader})
    net = torchvision.models.resnet18(num_classes=10)
    net.conv1, net.maxpool = nn.Conv2d(3, 64, 3, padding=1, bias=False), nn.Identity()
    net = net.cuda()
    net = {wrap}
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9, weight_decay=5e-4)
    for epoch in range(3):
        {epoch}
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
BEFORE = {
    "imports": "",
    "start": "",
    "loader": "batch_size={batch}, shuffle=True",
    "wrap": "nn.DataParallel(net)",
    "epoch": "pass",
}
AFTER = {
    "imports": ", DistributedSampler",
    "start": "import torch.distributed as dist\n    dist.init_process_group('nccl')\n"
    "    rank, world = dist.get_rank(), dist.get_world_size()\n    torch.cuda.set_device(rank)",
    "loader": "batch_size={batch} // world, sampler=DistributedSampler(data)",
    "wrap": "nn.parallel.DistributedDataParallel(net, device_ids=[rank])",
    "epoch": "loader.sampler.set_epoch(epoch)",
}


ALONE = """
import os, runpy, sys, time
import numpy, torch, torchvision
from torch.optim.optimizer import register_optimizer_step_post_hook

torch.set_num_threads(1)
left = [int(sys.argv[2])]


def stop(*_):
    left[0] -= 1
    if not left[0]:
        print(time.process_time() - begun, flush=True)
        os._exit(0)


register_optimizer_step_post_hook(stop)
begun = time.process_time()
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def write(folder: Path, program: str, batch: int) -> tuple[Path, Path, Path]:
    """The original, the converted program, and the original for one CPU."""
    paths = folder / "train.py", folder / "train_ddp.py", folder / "train_cpu.py"
    for path, parts in zip(paths, (BEFORE, AFTER, {**BEFORE, "wrap": "net"}), strict=True):
        values = {name: text.replace("{batch}", str(batch)) for name, text in parts.items()}
        text = textwrap.dedent(program.format(**values, batch=batch))
        path.write_text(text.replace(".cuda()", "") if path == paths[2] else text)
    return paths


def alone(path: Path, steps: int) -> float:
    """CPU seconds of some steps of a plain program, without the imports."""
    command = [sys.executable, "-c", ALONE, str(path), str(steps)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=1800)
    return float(done.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--batch", type=int, default=128)
    options = parser.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as name, ForkServer(preload=("numpy", "torchvision")) as server:
        server.start()
        print(
            f"{'pair':34s} {'verdict':>10s} {'before':>8s} {'after':>8s} {'alone':>8s} {'ratio':>6s} {'hooks':>7s} {'wall':>7s} {'memory':>9s}"
        )
        for label, program, batch, devices, steps in (
            ("MLP, 4 devices", MLP, 64, 4, None),
            (f"ResNet-18, 32x32, batch {options.batch}", RESNET, options.batch, 4, options.steps),
        ):
            folder = Path(name) / label.split(",")[0]
            folder.mkdir()
            before, after, plain = write(folder, program, batch)
            request = VerifyRequest(before, after, devices=devices, steps=steps, cwd=folder, timeout=1800.0)
            few = max(2, (steps or 8) // 4)
            first = alone(plain, few)
            verdict = verify(request, server)
            least = (first + alone(plain, few)) / 2 / few * verdict.steps
            recorded = record_before(request, server)
            hooks = (recorded.record.end or {}).get("hook_seconds", 0.0) / max(recorded.outcome.cpu, 1e-9)
            print(
                f"{label:34s} {verdict.status.value:>10s} {verdict.cpu_before:6.1f} s {verdict.cpu_after:6.1f} s"
                f" {least:6.1f} s {(verdict.cpu_before + verdict.cpu_after) / max(2 * least, 1e-9):5.2f} {hooks:7.1%} {verdict.wall:5.0f} s {verdict.memory / 1024:5.0f} MiB"
            )
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"everything, the import of torch included: {children.ru_utime + children.ru_stime:.1f} CPU-seconds")


if __name__ == "__main__":
    main()
