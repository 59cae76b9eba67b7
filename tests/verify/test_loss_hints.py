"""What is said about a loss that is off by a factor."""

import pytest

from migrator.verify.compare_gradients import loss_hint


@pytest.mark.parametrize(
    ("ratio", "said"),
    [(0.25, "a division by 4 was added"), (3.0, "a division by 3 was lost"), (0.5, "a sum over samples")],
)
def test_a_whole_factor_is_named(ratio: float, said: str):
    assert said in loss_hint(ratio, world=2)


@pytest.mark.parametrize("ratio", [1.00002, 0.99998])
def test_a_factor_of_about_one_is_no_division(ratio: float):
    assert "division" not in loss_hint(ratio, world=2)
