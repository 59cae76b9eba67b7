"""Run the checks on process groups of four and two, and on none: `python -m tests.split.ranks FOLDER`."""

import contextlib
import json
import os
import sys
import time
import traceback
import warnings
from datetime import timedelta
from pathlib import Path

import torch
import torch._dynamo  # the first optimizer imports it: once here, rather than in every child
import torch.distributed as dist

from tests.split import alone
from tests.split.checks import CHECKS

SIZES = (4, 2)
COLLECTIVE_TIMEOUT = timedelta(seconds=20)


def run_checks(folder: Path, rank: int, world: int) -> None:
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store{world}", rank=rank, world_size=world, timeout=COLLECTIVE_TIMEOUT
    )
    results = {}
    for name, function in CHECKS.items():
        started = time.perf_counter()
        try:
            function()
            error = ""
        except BaseException:
            error = traceback.format_exc()
        errors: list[str] = [""] * world
        dist.all_gather_object(errors, error)
        found = [f"rank {r}: {e}" for r, e in enumerate(errors) if e]
        results[name] = {"error": "\n".join(found), "seconds": time.perf_counter() - started}
        if rank == 0:
            (folder / f"world{world}.json").write_text(json.dumps(results))
    dist.destroy_process_group()


def run(folder: Path, rank: int) -> None:
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    for world in SIZES:
        if rank < world:
            run_checks(folder, rank, world)
    if rank == 3:
        alone.run(folder / "alone.json")


def main(folder: Path) -> None:
    children = []
    for rank in range(max(SIZES)):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(BaseException):
                run(folder, rank)
            os._exit(0)  # gloo's threads may abort an orderly exit; the results are in the folder
        children.append(child)
    for child in children:
        os.waitpid(child, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
