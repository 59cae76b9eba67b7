"""Run programs on several processes, without a launcher: `python ranks.py JOBS.json`.

Each job is {"script", "arguments", "processes", "folder", "out"}.  Its processes are forked from this one, which has imported
torch and accelerate; they get the environment that torchrun gives.  What a process says is in `out`.<rank>: the number of
processes that it found, how many Accelerators it made, and the script's global `history`.
"""

import gc
import importlib
import json
import os
import runpy
import socket
import sys
import time
import traceback
from pathlib import Path

LIMIT = 120.0  # seconds for a job


def run(job: dict, rank: int, port: int) -> None:
    """One process of a job; returns to nobody."""
    code = 1
    try:
        world = job["processes"]
        if world > 1:
            named = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": world, "LOCAL_WORLD_SIZE": world}
            os.environ.update({name: str(value) for name, value in named.items()})
            os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), ACCELERATE_USE_CPU="true")
        os.chdir(job["folder"])
        sys.argv = [job["script"], *job["arguments"]]
        sys.path.insert(0, str(Path(job["script"]).parent))
        log = open(f"{job['out']}.{rank}.log", "w")  # noqa: SIM115
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        found = _watch()
        left = runpy.run_path(job["script"], run_name="__main__")
        said = {
            "processes": max(found["processes"]),
            "accelerators": found["accelerators"],
            "history": left.get("history"),
        }
        Path(f"{job['out']}.{rank}").write_text(json.dumps(said))
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _watch() -> dict:
    """From here on: the numbers of processes that groups had and Accelerators found, and how many Accelerators were made."""
    import torch.distributed
    from accelerate import Accelerator

    found = {"processes": [1], "accelerators": 0}
    join, make = torch.distributed.init_process_group, Accelerator.__init__

    def joined(*args, **kwargs):
        join(*args, **kwargs)
        found["processes"].append(torch.distributed.get_world_size())

    def made(self, *args, **kwargs):
        make(self, *args, **kwargs)
        found["accelerators"] += 1
        found["processes"].append(self.num_processes)

    torch.distributed.init_process_group, Accelerator.__init__ = joined, made
    return found


def main(path: str) -> None:
    import torch

    for name in ("accelerate", "torch._dynamo"):  # the latter takes seconds, and every optimizer imports it
        importlib.import_module(name)
    torch.set_num_threads(1)
    gc.freeze()  # a collection would copy the pages that the children share
    for job in json.loads(Path(path).read_text()):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        children = []
        for rank in range(job["processes"]):
            pid = os.fork()
            if pid == 0:
                run(job, rank, port)
            children.append(pid)
        end = time.monotonic() + LIMIT
        while children and time.monotonic() < end:
            children = [pid for pid in children if os.waitpid(pid, os.WNOHANG)[0] == 0]
            time.sleep(0.02)
        for pid in children:
            os.kill(pid, 9)
            os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1])
