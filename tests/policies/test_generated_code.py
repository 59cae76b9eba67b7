"""A converted program does in each step what an expert's program does: as many collectives, bytes and operator calls."""

import pytest

from benchmarks.generated_against_expert import GENERATED, OPERATORS, count, write_programs


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.long)])
def test_a_step_costs_what_the_experts_costs(tmp_path, monkeypatch, world):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    programs = write_programs(tmp_path)
    expert, own = count(programs["expert"], world), count(programs[GENERATED], world)
    assert expert.collectives["allreduce"][0] >= 1, "gradients are exchanged"
    assert expert.collectives["allreduce"][1] > 100_000, "all of them"
    assert own.collectives == expert.collectives
    assert own.operators <= OPERATORS * expert.operators
