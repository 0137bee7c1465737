"""Updates that are not finite: left out as if they had never been, told with their examples, ended when too many."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from weft.data import Examples, Text
from weft.errors import Fault
from weft.tasks import Loss
from weft.tasks.task import Origin
from weft.training import Scaling, build_optimizer
from weft.training.ranks import Ranks

CPU = torch.device("cpu")


def named(batch, *rows, places=False):
    """The batch, made of these rows of some examples, whose places may be known."""
    records = [Text("", f"train.txt:{number + 1}") for number in range(100)] if places else None
    return replace(batch, origin=Origin(np.asarray(rows), Examples({}, np.ones(100, dtype=np.int64), records), None))


@pytest.fixture
def bad(points):
    return points(value=math.nan)


@pytest.mark.parametrize("kind", ["adam", "adamw", "radam", "sgd"])
@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_training_with_bad_batches_is_the_one_without_them(points, bad, run_steps, kind, accumulate):
    good = [points(seed=seed) for seed in range(4)]
    spoilt = [bad] if accumulate == 1 else [points(seed=9), bad]
    optimizers = []

    def build(model):
        optimizers.append(build_optimizer(model, kind=kind, rate=0.1, weight_decay=0.01))
        return optimizers[-1]

    model, loop = run_steps([*good[:2], *spoilt, *good[2:]], optimizer=build, accumulate=accumulate, skip_bad=1)
    assert [math.isfinite(step.loss) for step in loop].count(False) == 1
    twin, loop = run_steps(good, optimizer=build, accumulate=accumulate)
    list(loop)
    assert all(map(torch.equal, model.parameters(), twin.parameters()))
    kept, expected = (optimizer.state_dict()["state"] for optimizer in optimizers)
    torch.testing.assert_close(kept, expected, rtol=0, atol=0)


def test_a_loss_without_end_is_left_out_though_its_gradient_is_finite(points, run_steps):
    class Infinite:
        def loss(self, model, batch, *, label_smoothing=0.0):
            return Loss(model(batch.x).sum() + math.inf, batch.count)

    model, loop = run_steps([points()], objective=Infinite(), skip_bad=1)
    before = model.weight.detach().clone()
    step = next(loop)
    assert math.isfinite(step.gradient)
    assert torch.equal(model.weight, before)
    assert "the loss is not finite (loss inf)" in step.notes[0]


def test_it_is_told_with_the_examples_and_the_count(points, bad, run_steps):
    batches = [points(), named(bad, 17, 3), named(bad, *range(20, 31)), points(), named(bad, 5, places=True)]
    told = [step.notes for step in run_steps(batches, skip_bad=2)[1]]
    assert [len(notes) for notes in told] == [0, 1, 1, 0, 1]
    assert told[1][0].startswith(
        "update 2 was left out: the loss is not finite (loss nan) with training examples 17, 3;"
    )
    assert "20, 21, 22, 23, 24, 25, 26, 27 and 3 more; 2 in a row, and more than train.skip_bad = 2 would" in told[2][0]
    assert "with train.txt:6; 1 in a row" in told[4][0]


def test_of_several_batches_the_bad_one_is_told(points, bad, run_steps):
    group = [named(points(), 1), named(bad, 2), named(points(), 3)]
    [step] = run_steps(group, accumulate=3, skip_bad=1)[1]
    assert "with training examples 2;" in step.notes[0]


def test_a_bad_batch_of_another_process_is_not_looked_for_here(points, bad, run_steps):
    class Pair(Ranks):
        """The first of two, and what the other one sends."""

        def sum(self, tensor):
            return tensor + math.nan

        def sum_gradients(self, parameters):
            for parameter in parameters:
                parameter.grad += math.nan

    group = [named(points(), 1), named(bad, 2)]
    [step] = run_steps(group, accumulate=2, skip_bad=1, ranks=Pair(0, 2))[1]
    assert "with a batch of another process;" in step.notes[0]


def test_too_many_in_a_row_end_it_and_a_good_one_starts_the_count_anew(points, bad, run_steps):
    row = [named(bad, 7)] * 2
    model, loop = run_steps([*row, points(), *row, *row], skip_bad=2)
    seen = [next(loop).number for _ in range(5)]
    assert seen == [1, 2, 3, 4, 5]
    with pytest.raises(
        Fault, match=r"not finite at update 6, nor at the 2 before it \(loss nan, training examples 7\)"
    ):
        next(loop)
    assert model.weight.isfinite().all()


def test_a_loss_that_is_not_finite_leaves_the_scale_alone(points, bad, run_steps):
    scaling = Scaling(CPU, initial=2.0**10)
    model, loop = run_steps([points(), bad, points(seed=1)], scaling=scaling, skip_bad=1)
    next(loop)
    before, weight = scaling.state(), model.weight.detach().clone()
    assert "left out" in next(loop).notes[0]
    assert scaling.state() == before
    assert torch.equal(model.weight, weight)
    next(loop)
    assert scaling.state()["_growth_tracker"] == before["_growth_tracker"] + 1


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
class TestOnCuda:
    @pytest.mark.parametrize("precision", ["float32", "fp16"])
    def test_it_is_left_out_at_once_and_told_without_waiting(self, points, bad, run_steps, precision):
        batches = [points(), named(bad, 5), *(points(seed=seed) for seed in range(20))]
        settings = {
            "device": "cuda",
            "precision": precision,
            "optimizer": lambda model: torch.optim.AdamW(model.parameters(), lr=0.1, fused=True),
        }
        model, loop = run_steps([batch.pin() for batch in batches], skip_bad=1, **settings)
        notes = [*next(loop).notes, *next(loop).notes]
        torch.cuda.set_sync_debug_mode("error")
        try:
            for step in loop:
                notes += step.notes
                if step.number == 20:
                    break
        finally:
            torch.cuda.set_sync_debug_mode("default")
        for step in loop:
            notes += step.notes
            torch.cuda.synchronize()
        twin, loop = run_steps([batches[0], *batches[2:]], **settings)
        list(loop)
        assert ["update 2 was left out" in note and "training examples 5" in note for note in notes] == [True]
        torch.testing.assert_close(model.state_dict(), twin.state_dict(), rtol=0, atol=1e-5)
