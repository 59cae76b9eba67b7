"""Launch lines and files for converted programs: one machine, several machines, SLURM.

In: a `Launch`.  Out: text: the command for each machine, or an sbatch file.  Nothing is started and no machine is asked.
Machines meet through torchrun's c10d rendezvous: the first machine's name and one free port are all that they have to agree on.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

PORT = 29500
# SLURM jobs of one machine must not meet on one port: the job's number chooses it, above the well-known ones.
SLURM_PORTS = (15000, 20000)


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start where.  `gpus` 0: as many as a machine has (not known to SLURM, which has to be told)."""

    program: str
    arguments: tuple[str, ...] = ()
    form: Literal["ddp", "accelerate"] = "ddp"
    gpus: int = 0
    nodes: int = 1
    least_nodes: int = 0  # 0: all of them; fewer: go on with those that are left
    host: str = "HOST"  # the first machine
    port: int = PORT
    max_restarts: int = 0
    cpus: int = 8  # of a SLURM task, per GPU
    hours: int = 24
    partition: str = ""


def lines(launch: Launch) -> list[str]:
    """The command, which is the same on every machine; accelerate's differs by the machine's number."""
    if launch.form == "accelerate":
        return [_accelerate(launch, str(rank)) for rank in range(launch.nodes)]
    return [_torchrun(launch, f"{launch.host}:{launch.port}", "")]


def _torchrun(launch: Launch, endpoint: str, job: str) -> str:
    words = ["torchrun"]
    if launch.nodes == 1 and not job:
        words.append("--standalone")
    else:
        least = launch.least_nodes or launch.nodes
        words.append(f"--nnodes={launch.nodes if least == launch.nodes else f'{least}:{launch.nodes}'}")
        words.append(f"--rdzv_backend=c10d --rdzv_endpoint={endpoint}")
        words.append(f"--rdzv_id={job or Path(launch.program).stem}")
    words.append(f"--nproc_per_node={launch.gpus or 'gpu'}")
    if launch.max_restarts:
        words.append(f"--max_restarts={launch.max_restarts}")
    return " ".join([*words, "--", _program(launch)])


def _accelerate(launch: Launch, rank: str) -> str:
    count = "$(nvidia-smi --list-gpus | wc -l)"
    total = (
        str(launch.gpus * launch.nodes)
        if launch.gpus
        else f"$(({launch.nodes} * {count}))"
        if launch.nodes > 1
        else count
    )
    words = [f"accelerate launch --multi_gpu --num_processes {total} --num_machines {launch.nodes}"]
    if launch.nodes > 1:
        words.append(f"--machine_rank {rank} --main_process_ip {launch.host} --main_process_port {launch.port}")
    if launch.max_restarts:
        words.append(f"--max_restarts {launch.max_restarts}")
    return " ".join([*words, "--mixed_precision no --dynamo_backend no", _program(launch)])


def _program(launch: Launch) -> str:
    return shlex.join([launch.program, *launch.arguments])


def sbatch(launch: Launch) -> str:
    """A file for sbatch.  Raises ValueError where SLURM has to be told more."""
    if launch.gpus < 1:
        raise ValueError("SLURM has to be told the number of GPUs of a machine: give --gpus")
    first, count = SLURM_PORTS
    options = {
        "job-name": Path(launch.program).stem,
        "nodes": str(launch.nodes),
        "ntasks-per-node": "1",  # one torchrun per machine; it starts one process per GPU
        "gpus-per-node": str(launch.gpus),
        "cpus-per-task": str(launch.cpus * launch.gpus),
        "time": f"{launch.hours}:00:00",
        "output": "%x-%j.log",
        **({"partition": launch.partition} if launch.partition else {}),
    }
    flags = [f"#SBATCH --{name}={value}" for name, value in options.items()]
    if launch.least_nodes and launch.least_nodes < launch.nodes:
        flags.append("#SBATCH --no-kill")  # the job outlives a machine
    body = [
        "#!/bin/bash",
        *flags,
        "",
        "set -euo pipefail",
        'mapfile -t hosts < <(scontrol show hostnames "$SLURM_JOB_NODELIST")',
        'head_node="${hosts[0]}"',
        f"port=$(({first} + SLURM_JOB_ID % {count}))",
        f"export OMP_NUM_THREADS={max(1, launch.cpus)}",
        "",
        *_tasks(launch),
    ]
    return "\n".join(body) + "\n"


def _tasks(launch: Launch) -> Iterator[str]:
    kill = "--kill-on-bad-exit=0 " if launch.least_nodes and launch.least_nodes < launch.nodes else ""
    if launch.form == "accelerate":
        # The machine's number is known only inside the task.
        yield "export head_node port"
        yield f"srun {kill}bash -c {shlex.quote(_in_task(launch))}"
    else:
        command = _torchrun(launch, '"$head_node:$port"', '"$SLURM_JOB_ID"')
        yield f"srun {kill}{command}"


def _in_task(launch: Launch) -> str:
    words = [
        f"accelerate launch --multi_gpu --num_processes {launch.gpus * launch.nodes} --num_machines {launch.nodes}",
        '--machine_rank "$SLURM_NODEID" --main_process_ip "$head_node" --main_process_port "$port"',
        f"--max_restarts {launch.max_restarts}" if launch.max_restarts else "",
        f"--mixed_precision no --dynamo_backend no {_program(launch)}",
    ]
    return " ".join(word for word in words if word)


def advice(launch: Launch, resumes: bool | None) -> list[str]:
    """What a person has to know beside the lines."""
    told = []
    if launch.nodes > 1 and launch.form == "ddp":
        told.append(
            f"run the same line on each of the {launch.nodes} machines; {launch.host} is the first one's name or address"
        )
        told.append(
            f"port {launch.port} of {launch.host} must be open to the others; the program and its data must be on each machine"
        )
    elif launch.nodes > 1:
        told.append(
            f"one line for each of the {launch.nodes} machines, in order; {launch.host} is the first one's name or address"
        )
    if launch.max_restarts:
        if resumes is False:
            told.append("a restart begins from the start: the program has no option to resume from a checkpoint")
        else:
            told.append(
                "a restart runs the same command again: it goes on from the last checkpoint only where the program, or its arguments, say so"
            )
    if launch.least_nodes and launch.least_nodes < launch.nodes:
        told.append(
            "with fewer machines each process takes more samples: the global batch stays where the program divides it by the world size"
        )
    return told
