"""Run programs on gloo ranks, each a fork of one process that has imported torch: `python -m tests.policies.server`.

In: one JSON job a line (file, folder, world, arguments).  Out: one line with the exit codes.  Each rank writes
`rank<r>.json`: the learning rate of every step, worked out from what the step did to the first parameter, and a digest of the
final parameters.
"""

import json
import os
import runpy
import signal
import socket
import sys
import traceback

import torch
import torch._dynamo  # the first optimizer imports it: once here, rather than in every child
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

SECONDS = 180


def record(seen: dict) -> None:
    """Note what each step does: the first parameter before and after, and its gradient or momentum."""

    def first(optimizer):
        return optimizer.param_groups[0]["params"][0]

    def before(optimizer, args, kwargs):
        seen["before"] = first(optimizer).detach().clone()

    def after(optimizer, args, kwargs):
        parameter = first(optimizer)
        seen["optimizer"] = optimizer
        if parameter.grad is not None:
            gradient = optimizer.state[parameter].get("momentum_buffer", parameter.grad).flatten()
            moved = (seen["before"] - parameter.detach()).flatten()
            biggest = gradient.abs().argmax()
            seen["rates"].append((moved[biggest] / gradient[biggest]).item())

    register_optimizer_step_pre_hook(before)
    register_optimizer_step_post_hook(after)


def run(job: dict, rank: int, port: int) -> None:
    os.chdir(job["folder"])
    with open(f"log{rank}.txt", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    signal.alarm(SECONDS)
    world = {
        "RANK": rank,
        "LOCAL_RANK": rank,
        "WORLD_SIZE": job["world"],
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
    }
    os.environ.update({name: str(value) for name, value in world.items()})
    sys.argv = [job["file"], *job["arguments"]]
    sys.path.insert(0, job["folder"])
    torch.set_num_threads(1)
    if not job["arguments"]:  # a program of these tests, which makes its own data
        torch.set_default_dtype(torch.float64)
    seen: dict = {"rates": []}
    record(seen)
    code = 0
    try:
        variables = runpy.run_path(job["file"], run_name="__main__")
        parameters = [p for group in seen["optimizer"].param_groups for p in group["params"]]
        result = {
            "rates": seen["rates"],
            "sums": [p.detach().double().sum().item() for p in parameters],
            "shown": variables.get("SHOWN"),
            "steps_taken": seen["optimizer"].param_groups[0].get("steps_taken"),
        }
        with open(f"rank{rank}.json", "w") as file:
            json.dump(result, file)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # gloo's threads may abort an orderly exit


def main() -> None:
    assert dist.is_available()
    for line in sys.stdin:
        job = json.loads(line)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        children = []
        for rank in range(job["world"]):
            child = os.fork()
            if child == 0:
                run(job, rank, port)
            children.append(child)
        codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
        print(json.dumps(codes), flush=True)


if __name__ == "__main__":
    main()
