"""Kinds of programs that are seldom met: each right conversion is EQUAL, and a fault in it is still seen."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from migrator.verify import Status, Verdict, to_text

from .programs import SPLIT_TEMPLATE, edited, pair

MODEL = "nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 3))"
START = "torch.manual_seed(0)\n"
STEP = "        optimizer.zero_grad()\n        loss.backward()\n        optimizer.step()\n"
LOSS = "        loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())\n"
NOISE = """
class Noise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * torch.rand(len(x), 1, device=x.device)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.rand(len(gradient), 1, device=gradient.device)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(10, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.second(Noise.apply(self.first(x)))


"""
EVALUATION = """    net.eval()
    with torch.no_grad():
        outputs = torch.cat([net(images.cuda()) for (images,) in tests])
    net.train()
    print(f"mean output {float(outputs.mean()):.6f}")
"""
TESTS = "tests = DataLoader(TensorDataset(torch.randn({count}, 3, 6, 6)), batch_size=16)\n"


@pytest.mark.parametrize("float64", [pytest.param(False, marks=pytest.mark.long), True], ids=["float32", "float64"])
def test_random_numbers_of_a_backward_pass_are_equal(check: Callable[..., Verdict], float64: bool) -> None:
    before, after = (edited(text, (MODEL, "Net()"), (START, NOISE + START)) for text in pair("mlp"))
    verdict = check(before, after, float64=float64)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    wrong = edited(after, ("gradient * torch.rand(", "gradient * 0.9 * torch.rand("))
    verdict = check(before, wrong, float64=float64)
    assert (verdict.status, verdict.cause) == (Status.DIFFERENT, "gradient"), to_text(verdict)


def test_compiled_layers_run_as_they_are_written_and_that_is_said(check: Callable[..., Verdict]) -> None:
    before, after = (edited(text, ("optimizer = ", "net = torch.compile(net)\noptimizer = ")) for text in pair("mlp"))
    verdict = check(before, after)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    assert any("torch.compile" in note for note in verdict.notes)


@pytest.mark.parametrize("count", [18, 53], ids=["two rows at the end", "five rows at the end"])
def test_small_evaluation_batches_of_a_split_call_are_evaluated_once(check: Callable[..., Verdict], count: int) -> None:
    """Four ranks, and a batch with fewer chunks: the idle ranks' rows are dropped."""
    changes = (
        ("net = ", TESTS.format(count=count) + "net = "),
        ("        optimizer.step()\n", "        optimizer.step()\n" + EVALUATION),
    )
    before, after = (edited(text, *changes) for text in pair("split"))
    files = {"split_data_parallel.py": SPLIT_TEMPLATE.read_text()}
    verdict = check(before, after, files, devices=4)
    assert verdict.status is Status.EQUAL, to_text(verdict)
    assert any("every rank evaluates everything" in note for note in verdict.notes), to_text(verdict)


def test_a_shuffled_evaluation_that_each_rank_makes_whole_may_have_its_own_order(check: Callable[..., Verdict]) -> None:
    tests = "tests = DataLoader(TensorDataset(torch.randn(18, 10)), batch_size=16, shuffle=True)\n"
    changes = (("loader = ", tests + "loader = "), (STEP, STEP + EVALUATION))
    before, after = (edited(text, *changes) for text in pair("mlp"))
    verdict = check(before, edited(after, ("for epoch in", "torch.manual_seed(rank)\nfor epoch in")))
    assert verdict.status is Status.EQUAL, to_text(verdict)
    assert "every rank evaluates everything" in verdict.notes


TAGGED = """
class Tagged(torch.Tensor):
    def to(self, *arguments, **keywords):
        made = torch.Tensor.to(self.as_subclass(torch.Tensor), *arguments, **keywords).as_subclass(Tagged)
        made.tag = self.tag
        return made


def tagged(x):
    made = x.as_subclass(Tagged)
    made.tag = "noise"
    return made


"""


def test_inputs_of_a_tensor_class_of_the_programs_own(check: Callable[..., Verdict]) -> None:
    """Its methods want what a replica's share of it has not."""
    before, after = (
        edited(text, (START, TAGGED + START), ("net(x.cuda())", "net(tagged(x.cuda())).as_subclass(torch.Tensor)"))
        for text in pair("mlp")
    )
    verdict = check(before, after)
    assert verdict.status is Status.EQUAL, to_text(verdict)


def test_a_process_that_is_killed_is_named_with_its_last_words(check: Callable[..., Verdict]) -> None:
    before, after = pair("mlp")
    killed = edited(before, (STEP, STEP + '        print("going")\n        os.kill(os.getpid(), 11)\n'))
    verdict = check("import os\n" + killed, after)
    assert verdict.status is Status.NOT_VERIFIABLE
    assert "SIGSEGV after 1 optimizer steps" in verdict.reason and "going" in verdict.reason, verdict.reason
