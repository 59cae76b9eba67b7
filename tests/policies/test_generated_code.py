"""A converted program does in each step what an expert's program does: as many collectives, bytes and operator calls."""

import pytest

from benchmarks import accelerate_cost, generated_against_expert
from benchmarks.step_cost import OPERATORS, count, write_forms


@pytest.mark.parametrize("world", [2, pytest.param(4, marks=pytest.mark.long)])
def test_a_step_costs_what_the_experts_costs(tmp_path, monkeypatch, world):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    forms = generated_against_expert.FORMS
    names = generated_against_expert.BY_HAND, generated_against_expert.GENERATED
    programs = write_forms({name: forms[name] for name in names}, tmp_path)
    expert, own = (count(programs[name], world) for name in names)
    assert expert.collectives["allreduce"][0] >= 1, "gradients are exchanged"
    assert expert.collectives["allreduce"][1] > 100_000, "all of them"
    assert own.collectives == expert.collectives
    assert own.operators <= OPERATORS * expert.operators


@pytest.mark.long
@pytest.mark.parametrize("world", [2, 4])
def test_a_step_of_the_accelerate_form_costs_what_one_by_hand_costs(tmp_path, monkeypatch, world):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    forms, names = accelerate_cost.FORMS, (accelerate_cost.BY_HAND, accelerate_cost.GENERATED)
    programs = write_forms({name: forms[name] for name in names}, tmp_path)
    expert, own = (count(programs[name], world) for name in names)
    assert expert.collectives["allreduce"][1] > 100_000, "all gradients are exchanged"
    assert own.calls <= expert.calls and own.sent <= expert.sent
    assert own.operators <= OPERATORS * expert.operators
