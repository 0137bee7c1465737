"""Dropout over time drops the same features at every step."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from weft.nn import TimeDropout


def test_the_mask_is_the_same_at_every_step_and_differs_between_rows():
    torch.manual_seed(0)
    dropped = TimeDropout(0.5)(torch.ones(4, 6, 32))
    assert_close(dropped, dropped[:, :1].expand_as(dropped))
    assert len({tuple(row) for row in dropped[:, 0].tolist()}) == 4


def test_what_stays_is_scaled_so_that_the_mean_is_kept():
    torch.manual_seed(0)
    dropped = TimeDropout(0.25)(torch.ones(200, 3, 200))
    assert set(dropped.unique().tolist()) == {0.0, float(torch.tensor(1.0) / 0.75)}
    assert abs(dropped.mean().item() - 1) < 0.02


def test_nothing_is_dropped_outside_training():
    x = torch.randn(2, 3, 4)
    assert TimeDropout(0.5).eval()(x) is x
