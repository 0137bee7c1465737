"""Wilson's interval, against values worked out by hand."""

import pytest

from weft.metrics import wilson


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (16, 20, 0.5840, 0.9193), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (0, 0, 0.0, 1.0)],
)
def test_hand_worked_intervals(right: int, count: int, low: float, high: float) -> None:
    assert wilson(right, count) == pytest.approx((low, high), abs=1e-4)


def test_more_examples_are_closer() -> None:
    widths = [high - low for low, high in (wilson(8 * factor, 10 * factor) for factor in (1, 10, 100))]
    assert widths == sorted(widths, reverse=True)
