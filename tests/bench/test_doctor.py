"""The environment check on machines that are not here."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import pytest

from migrator.machines import doctor
from migrator.machines.doctor import Constant, examine, to_json, to_text
from migrator.machines.machine import parse_gpus, parse_matrix, read_machine

from .machines import FOUR, NONE, UNEQUAL, gpu

SMI = """\
0, NVIDIA A100-SXM4-80GB, GPU-aa, 81920, 4, 0, Disabled, 580.95.05
1, NVIDIA GeForce RTX 3090, GPU-bb, 24576, 900, 97, [N/A], 580.95.05
"""
TOPO = """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m
GPU0\t X \tNV12\tPXB\t0-31\t0
GPU1\tNV12\t X \tSYS\t0-31\t0
NIC0\tPXB\tSYS\t X

Legend:
  X    = Self
"""
P2P = """\
 \tGPU0\tGPU1
 GPU0\tX\tCNS
 GPU1\tCNS\tX

Legend:
  X    = Self
"""


def levels(machine):
    return {line.name: line.level for line in examine(machine)}


def test_four_equal_cards_are_fine():
    assert {line.name: line for line in examine(FOUR) if line.level != "ok"} == {}


def test_two_unequal_cards_get_a_remedy_for_each_fault():
    lines = {line.name: line for line in examine(UNEQUAL)}
    assert {n for n, line in lines.items() if line.level == "fail"} == {"driver", "shared memory"}
    assert {n for n, line in lines.items() if line.level == "warn"} == {
        "same model",
        "topology",
        "peer to peer",
        "open files",
    }
    assert all(line.remedy for line in lines.values() if line.level != "ok")
    assert "580.65.6" in lines["driver"].remedy


def test_a_machine_without_gpus_only_gets_told_so():
    assert [line.name for line in examine(NONE) if line.level != "ok"] == ["GPUs"]
    assert "fail" not in levels(NONE).values()


@pytest.mark.parametrize(
    "changed, name, level",
    [
        ({"torch": None, "torch_error": "ImportError: libcudart"}, "torch", "fail"),
        ({"torch": "1.13.1"}, "torch", "warn"),
        ({"torch_cuda": None}, "CUDA", "fail"),
        ({"backends": ("gloo",)}, "distributed", "fail"),
        ({"nccl": None}, "NCCL", "fail"),
        ({"wanted": {"NCCL": "2.30.7"}, "installed": {"NCCL": "2.27.5"}}, "NCCL", "warn"),
        ({"wanted": {"cuDNN": "9.24.0.43"}}, "cuDNN", "warn"),
        ({"visible": ""}, "visible GPUs", "fail"),
        ({"gpus": (gpu(0),)}, "GPUs", "warn"),
        ({"gpus": (gpu(0), gpu(1, used=60000))}, "others at work", "warn"),
        ({"environment": {"NCCL_P2P_DISABLE": "1"}}, "peer to peer", "warn"),
        ({"environment": {"OMP_NUM_THREADS": "64"}}, "OMP threads", "warn"),
        ({"environment": {"RANK": "0"}}, "environment", "warn"),
        ({"port_free": False}, "port", "warn"),
        ({"host_resolves": False}, "host name", "warn"),
        ({"shm_total": None}, "shared memory", "warn"),
        ({"open_files": (256, 256)}, "open files", "fail"),
        ({"processes": (100, 100)}, "processes", "warn"),
        ({"load": 99.0}, "load", "warn"),
        ({"accelerate": None}, "accelerate", "warn"),
    ],
)
def test_each_fault_has_its_line(changed, name, level):
    line = next(line for line in examine(replace(FOUR, **changed)) if line.name == name)
    assert line.level == level
    assert line.remedy


def test_what_nvidia_smi_prints_is_read():
    gpus, driver = parse_gpus(SMI)
    assert driver == "580.95.05"
    assert [(g.index, g.memory, g.used, g.utilisation, g.mig) for g in gpus] == [
        (0, 81920, 4, 0, False),
        (1, 24576, 900, 97, False),
    ]
    assert parse_gpus("No devices were found\n") == ((), None)
    assert parse_matrix(TOPO) == (("X", "NV12"), ("NV12", "X"))
    assert parse_matrix(P2P) == (("X", "CNS"), ("CNS", "X"))


def test_this_machine_can_be_read():
    machine = read_machine()
    text = to_text(examine(machine))
    assert machine.torch is not None
    assert text.splitlines()[0].startswith("ok    torch")
    assert json.loads(to_json(machine, examine(machine)))["machine"]["cpus"] == machine.cpus


def test_help_imports_nothing_heavy():
    code = "import sys, migrator.cli.app; print([m for m in ('torch', 'libcst', 'benchmarks', 'scipy') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={**os.environ}, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_every_bound_has_a_source_and_no_number_is_loose():
    bounds = [value for value in vars(doctor).values() if isinstance(value, Constant)]
    assert len(bounds) > 5
    assert all(one.meaning and one.source for one in bounds)
    assert "Release Notes" in doctor.LOWEST_DRIVER_SOURCE
    loose = [
        name for name, value in vars(doctor).items() if isinstance(value, (int, float)) and not name.startswith("_")
    ]
    assert loose == ["DEFAULT_PORT"]  # torchrun's


def test_versions_that_this_torch_names_are_read():
    machine = read_machine(with_torch=False)
    assert set(machine.installed) <= {"cuDNN", "NCCL"}
    assert set(machine.wanted) <= {"cuDNN", "NCCL"}
