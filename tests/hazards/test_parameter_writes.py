"""Layers that take their first values from the first batch: no process may go on with values of its own in silence."""

from tests.rules.tools import check_noop, check_question, training

LAYER = """\
class ActNorm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(size))
        self.register_buffer("done", torch.tensor(0))
        self.shift.data.zero_()

    def start(self, x):
        {write}

    def forward(self, x):
        if not self.done:
            self.start(x)
        return x + self.shift


def main():
"""


def program(write: str) -> str:
    text = training("").replace("def main():\n", LAYER.format(write=write))
    return text.replace("nn.Linear(4, 2)", "nn.Sequential(nn.Linear(4, 2), ActNorm(2))")


def test_a_parameter_that_is_set_by_the_first_batch_is_asked_about():
    for write in ("self.shift.data.copy_(-x.mean(0))", "self.shift.data = -x.mean(0)"):
        assert check_question(program(write), "sets a parameter by the rows", "MG302").way == "call"


def test_a_buffer_that_the_first_batch_sets_is_no_parameter():
    assert check_noop(program("self.done.fill_(1)"), "MG302").way == "distributed"
