"""Dropout keeps its share and the mean; over time it drops the same features at every step."""

from __future__ import annotations

import torch
from torch.testing import assert_close

from weft.nn import Dropout, TimeDropout


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


def test_every_number_is_dropped_by_itself_and_the_gradient_with_it():
    torch.manual_seed(0)
    x = torch.ones(301, 7, 101, requires_grad=True)
    dropped = Dropout(0.1)(x)
    assert set(dropped.unique().tolist()) == {0.0, float(torch.tensor(1.0) / 0.9)}
    kept = (dropped > 0).float()
    assert abs(kept.mean().item() - 0.9) < 0.003
    for dimension in range(3):
        assert (kept.mean(dimension).std() < 0.2).all()
    neighbours = (kept[..., 1:] * kept[..., :-1]).mean().item()
    assert abs(neighbours - 0.81) < 0.004
    dropped.sum().backward()
    assert_close(x.grad, dropped.detach())


def test_what_is_dropped_follows_from_the_seed():
    def draw():
        torch.manual_seed(3)
        return [Dropout(0.5)(torch.ones(50)) for _ in range(2)]

    first, second = draw()
    assert not torch.equal(first, second)
    for one, again in zip((first, second), draw(), strict=True):
        assert torch.equal(one, again)


def test_a_module_that_does_not_train_drops_nothing():
    x = torch.randn(2, 3)
    assert Dropout(0.5).eval()(x) is x
    assert_close(Dropout(0.0)(x), x)
