"""Several batches make the update of their union, wherever a training starts and however its gradients are made."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from weft.data import chunks
from weft.tasks import Batch
from weft.training import SCHEDULES

SIZES = (8, 3, 5, 1, 7, 6)


def union(group: list[Batch]) -> Batch:
    parts = {name: torch.cat([getattr(batch, name) for batch in group]) for name in ("x", "y")}
    return type(group[0])(sum(batch.count for batch in group), **parts)


@pytest.mark.parametrize("accumulate", [2, 3, 4])
def test_batches_of_different_sizes_make_the_update_of_one_large_batch(points, run_steps, accumulate):
    batches = [points(rows, seed=rows) for rows in SIZES]
    model, loop = run_steps(batches, accumulate=accumulate)
    whole, other = run_steps([union(group) for group in chunks(batches, accumulate)])
    for step, large in zip(loop, other, strict=True):
        assert (step.number, step.tokens) == (large.number, large.tokens)
        assert step.loss == pytest.approx(large.loss, rel=1e-6)
        assert step.gradient == pytest.approx(large.gradient, rel=1e-6)
        torch.testing.assert_close(model.state_dict(), whole.state_dict(), rtol=0, atol=1e-6)


def test_a_training_that_goes_on_is_the_one_that_never_stopped(points, run_steps):
    batches = [points(rows, seed=rows) for rows in SIZES]
    schedule = SCHEDULES["cosine"](1, 4)
    optimizers = []

    def adam(model: nn.Module) -> torch.optim.Optimizer:
        optimizers.append(torch.optim.Adam(model.parameters(), lr=0.1))
        return optimizers[-1]

    unbroken, loop = run_steps(batches, schedule=schedule, accumulate=2, optimizer=adam)
    expected = [(step.number, step.rate, step.loss) for step in loop]
    model, loop = run_steps(batches[:2], schedule=schedule, accumulate=2, optimizer=adam)
    seen = [(step.number, step.rate, step.loss) for step in loop]
    weights, kept = {name: tensor.clone() for name, tensor in model.state_dict().items()}, optimizers[-1].state_dict()

    def restored(model: nn.Module) -> torch.optim.Optimizer:
        model.load_state_dict(weights)
        adam(model).load_state_dict(kept)  # with the rate of its last update, which is not the peak
        return optimizers[-1]

    model, loop = run_steps(batches[2:], schedule=schedule, accumulate=2, optimizer=restored, start=1)
    assert seen + [(step.number, step.rate, step.loss) for step in loop] == expected
    assert all(map(torch.equal, model.parameters(), unbroken.parameters()))


def test_groups_are_full_but_for_the_last():
    assert list(chunks(range(7), 3)) == [[0, 1, 2], [3, 4, 5], [6]]
    assert list(chunks([], 3)) == []


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
class TestOnCuda:
    @pytest.mark.parametrize("sizes", [(8, 8, 8, 8, 8, 8), SIZES], ids=["one shape", "many shapes"])
    def test_gradients_from_graphs_add_up(self, points, run_steps, sizes):
        """Batches of one shape share a graph, and with it the place their gradients are written to."""
        batches = [points(rows, seed=number) for number, rows in enumerate(sizes)]
        settings = {"device": "cuda", "accumulate": 3, "precision": "float32"}
        model, loop = run_steps([batch.pin() for batch in batches], captured=True, **settings)
        plain, other = run_steps(batches, **settings)
        for step, twin in zip(loop, other, strict=True):
            assert step.loss == pytest.approx(twin.loss, rel=1e-5)
            assert step.gradient == pytest.approx(twin.gradient, rel=1e-5)
        torch.testing.assert_close(model.state_dict(), plain.state_dict(), rtol=0, atol=1e-6)
