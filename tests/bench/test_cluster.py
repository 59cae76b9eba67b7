"""How converted programs are started on one machine, several, and under SLURM."""

import contextlib
import os
import shlex
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from migrator.cli.app import app
from migrator.launch.cluster import Launch, advice, lines, sbatch


def test_lines_of_one_machine_and_of_several():
    assert lines(Launch("train.py")) == ["torchrun --standalone --nproc_per_node=gpu -- train.py"]
    (line,) = lines(Launch("train.py", ("--name", "a b"), gpus=4, nodes=2, host="node0", max_restarts=3))
    assert line == (
        "torchrun --nnodes=2 --rdzv_backend=c10d --rdzv_endpoint=node0:29500 --rdzv_id=train --nproc_per_node=4 "
        "--max_restarts=3 -- train.py --name 'a b'"
    )
    assert "--nnodes=1:2" in lines(Launch("train.py", nodes=2, least_nodes=1))[0]
    both = lines(Launch("train.py", form="accelerate", gpus=4, nodes=2, host="node0"))
    assert ["--machine_rank 0" in both[0], "--machine_rank 1" in both[1]] == [True, True]
    assert "--num_processes 8 --num_machines 2" in both[0]


STANDS_IN = {
    "scontrol": "#!/bin/bash\necho node7\necho node8\n",
    "srun": '#!/bin/bash\nwhile [[ "$1" == -* ]]; do shift; done\nexec "$@"\n',
    "torchrun": '#!/bin/bash\nprintf "%s\\n" torchrun "$@" > said\n',
    "accelerate": '#!/bin/bash\nprintf "%s\\n" accelerate "$@" > said\n',
}


@pytest.mark.parametrize("form", ["ddp", "accelerate"])
def test_an_sbatch_file_runs_with_stand_ins_for_slurm(tmp_path, form):
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, text in STANDS_IN.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    text = sbatch(
        Launch(
            "train.py",
            ("--name", "it's $HOME"),
            form=form,
            gpus=4,
            nodes=2,
            least_nodes=0 if form != "ddp" else 1,
            max_restarts=3,
        )
    )
    job = tmp_path / "job.sbatch"
    job.write_text(text)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "node[7-8]"}
    environment |= {"SLURM_JOB_ID": "123", "SLURM_NODEID": "1"}
    subprocess.run(["bash", str(job)], cwd=tmp_path, check=True, env=environment, timeout=20)
    said = (tmp_path / "said").read_text().splitlines()
    assert said[-3:] == ["train.py", "--name", "it's $HOME"]
    if form == "ddp":
        assert "--rdzv_endpoint=node7:15123" in said
        assert "--rdzv_id=123" in said
        assert "--nnodes=1:2" in said
        assert "#SBATCH --no-kill" in text
    else:
        assert said[said.index("--machine_rank") + 1] == "1"
        assert said[said.index("--main_process_ip") + 1] == "node7"
    assert "#SBATCH --gpus-per-node=4" in text


def test_slurm_has_to_be_told_the_gpus():
    with pytest.raises(ValueError, match="give --gpus"):
        sbatch(Launch("train.py"))


def test_the_command_writes_once_and_says_what_restarting_means(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)\n")
    words = [
        "launch",
        "train.py",
        "--launcher",
        "slurm",
        "--gpus",
        "4",
        "--nodes",
        "2",
        "--max-restarts",
        "2",
        "-o",
        "job.sbatch",
    ]
    done = CliRunner().invoke(app, [*words, "--", "--epochs", "3"])
    assert done.exit_code == 0, done.output
    assert Path("job.sbatch").read_text().rstrip().endswith("-- train.py --epochs 3")
    assert "no option to resume" in done.stderr
    assert CliRunner().invoke(app, words).exit_code == 4  # it is there already
    assert not stat.S_ISLNK(Path("job.sbatch").lstat().st_mode)
    assert CliRunner().invoke(app, ["launch", "train.py", "--nodes", "1", "--min-nodes", "2"]).exit_code == 2


def test_advice_for_several_machines():
    told = " ".join(advice(Launch("t.py", nodes=2, least_nodes=1, max_restarts=1), True))
    assert "same line on each" in told
    assert "last checkpoint" in told
    assert "global batch" in told


RESUMES = """
import os, sys, time, torch, torch.distributed as dist
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
step = 0
if os.path.exists("checkpoint.pt"):
    state = torch.load("checkpoint.pt")
    model.load_state_dict(state["model"])
    step = state["step"]
if rank == 0:
    print(f"begins at {step} in a world of {world}", file=open("said", "a"), flush=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
while step < 40:
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    step += 1
    if rank == 0:
        torch.save({"model": model.state_dict(), "step": step}, "part.pt")
        os.replace("part.pt", "checkpoint.pt")
    dist.barrier()
    time.sleep(0.2)
if rank == 0:
    print(f"ends at {step}", file=open("said", "a"), flush=True)
"""


@pytest.mark.long
def test_two_agents_of_which_one_is_killed(tmp_path):
    """The machine that is left restarts alone and goes on from the last checkpoint."""
    (tmp_path / "train.py").write_text(RESUMES)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    (line,) = lines(Launch("train.py", gpus=1, nodes=2, least_nodes=1, host="127.0.0.1", port=port, max_restarts=3))
    words = shlex.split(line)
    command = [sys.executable, "-m", "torch.distributed.run", "--rdzv_conf=last_call_timeout=15", *words[1:]]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    agents = []
    try:
        for number in range(2):
            log = (tmp_path / f"agent{number}.log").open("wb")
            agents.append(
                subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log, start_new_session=True)
            )
            if number == 0:
                time.sleep(4)  # the first one holds the store of the rendezvous
        limit = time.monotonic() + 240
        while time.monotonic() < limit and not (tmp_path / "checkpoint.pt").exists():
            time.sleep(0.1)
        time.sleep(1)
        end(agents[1])  # with its process: a machine is lost as a whole
        agents[0].wait(300)
    finally:
        for agent in agents:
            end(agent)
    said = (tmp_path / "said").read_text().splitlines()
    assert said[0] == "begins at 0 in a world of 2"
    again = said[-2]
    assert again.endswith("in a world of 1")
    assert int(again.split()[2]) > 0
    assert said[-1] == "ends at 40"
    assert agents[0].returncode == 0


def end(agent):
    """End an agent and the processes that it started, which have a session of their own."""
    for pid in [agent.pid, *children_of(agent.pid)]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    agent.wait(10)


def children_of(pid):
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
