"""How a converted program is started: the whole command, and for accelerate a configuration file that says the same.

In: the project or the entry's path, and the options.  Out: text.  Everything that a configuration on the user's disk could decide otherwise
(precision, number of processes, compilation) is said outright.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from codemods.options import Options

if TYPE_CHECKING:
    from migrator.load.project import Project

COUNT_GPUS = "$(nvidia-smi --list-gpus | wc -l)"


def launch_line(project: Project, options: Options) -> str:
    """The command that starts the converted program: by default on all GPUs of this machine, on a port that is free.

    `--standalone` would ignore a port, so a chosen one goes without it.  On several machines the same line is run on each.
    """
    if options.target == "accelerate":
        return accelerate_line(project.command, options)
    processes = f"--nproc_per_node={options.nproc or 'gpu'}"
    program = (
        project.command if project.package else f"-- {project.entry.path}"
    )  # torchrun would take options for its own
    if options.nodes > 1:
        meeting = f"--nnodes={options.nodes} --rdzv_backend=c10d --rdzv_endpoint=HOST:{options.master_port or 29500}"
        return f"torchrun {meeting} {processes} {program}"
    if options.master_port:
        return f"torchrun {processes} --master_port={options.master_port} {program}"
    return f"torchrun --standalone {processes} {program}"


def accelerate_line(path: str, options: Options) -> str:
    """The command for all GPUs of this machine, or for `options.nproc` of them; on several machines, the line for each."""
    processes = str(options.nproc) if options.nproc else COUNT_GPUS
    words = ["accelerate launch --multi_gpu"]
    if options.nodes > 1:
        total = options.nproc * options.nodes if options.nproc else f"$(({options.nodes} * {COUNT_GPUS}))"
        words += [f"--num_processes {total} --num_machines {options.nodes} --machine_rank RANK --main_process_ip HOST"]
    else:
        words += [f"--num_processes {processes} --num_machines 1"]
    if options.master_port or options.nodes > 1:
        words.append(f"--main_process_port {options.master_port or 29500}")
    words.append(f"--mixed_precision {precision(options)} --dynamo_backend no {path}")
    return " ".join(words)


def precision(options: Options) -> str:
    """The mixed precision that the converted program asks for."""
    return options.amp if options.amp in ("bf16", "fp16") else "no"


def launch_config(options: Options) -> str:
    """A file for `accelerate launch --config_file`; without a number of processes the command line has to give one."""
    rows = {
        "compute_environment": "LOCAL_MACHINE",
        "debug": "false",
        "distributed_type": "MULTI_GPU",
        "downcast_bf16": "'no'",
        "gpu_ids": "all",
        "machine_rank": "0",
        "main_training_function": "main",
        "mixed_precision": f"'{precision(options)}'",
        "num_machines": str(options.nodes),
        "rdzv_backend": "static",
        "same_network": "true",
        "use_cpu": "false",
    }
    if options.nproc:
        rows["num_processes"] = str(options.nproc * options.nodes)
    if options.master_port:
        rows["main_process_port"] = str(options.master_port)
    return "".join(f"{name}: {value}\n" for name, value in sorted(rows.items()))
