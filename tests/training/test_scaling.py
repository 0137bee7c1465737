"""Loss scaling: what it leaves in the gradients, what it leaves out, what a checkpoint keeps of it."""

from __future__ import annotations

import json
import math

import pytest
import torch

from weft.errors import ConfigError, Fault
from weft.training import Scaling, finite
from weft.training.device import precise

CPU = torch.device("cpu")


def test_the_scale_is_gone_before_gradients_are_clipped(points, run_steps):
    batches = [points(4, value=100.0), points(), points(5, seed=1)]
    scaled, with_scale = run_steps(batches, clip=0.5, scaling=Scaling(CPU))
    plain, without = run_steps(batches, clip=0.5)
    for step, other in zip(with_scale, without, strict=True):
        assert step.loss == pytest.approx(other.loss, rel=1e-5)
        assert step.gradient == pytest.approx(other.gradient, rel=1e-5)
    torch.testing.assert_close(scaled.state_dict(), plain.state_dict())


def test_an_overflow_is_left_out_and_halves_the_scale(points, run_steps):
    scaling = Scaling(CPU, initial=2.0**127)  # the loss times this is more than a float32 holds
    model, updates = run_steps([points(4, value=100.0)] * 30, scaling=scaling)
    before = model.weight.detach().clone()
    assert not math.isfinite(next(updates).gradient)
    assert torch.equal(model.weight, before)
    assert scaling.state()["scale"] == 2.0**126
    assert any(math.isfinite(step.gradient) for step in updates)
    assert not torch.equal(model.weight, before)


def test_a_loss_that_is_not_finite_ends_it_at_once(points, run_steps):
    _, updates = run_steps([points(), points(value=math.nan)], scaling=Scaling(CPU))
    next(updates)
    with pytest.raises(Fault, match=r"not finite at update 2 .*bf16"):
        next(updates)


def test_overflow_without_end_ends_the_training(points, run_steps, monkeypatch):
    monkeypatch.setattr(finite, "MAX_OVERFLOWS", 2)
    _, updates = run_steps([points(4, value=100.0)] * 4, scaling=Scaling(CPU, initial=2.0**127))
    assert [next(updates).number, next(updates).number] == [1, 2]
    with pytest.raises(Fault, match="at update 3"):
        next(updates)


def test_its_state_is_plain_numbers_and_goes_on_where_it_was(points, run_steps):
    scaling, again = Scaling(CPU, initial=2.0**127), Scaling(CPU)
    _, updates = run_steps([points(4, value=100.0)] * 3, scaling=scaling)
    list(updates)
    state = json.loads(json.dumps(scaling.state()))
    again.restore(state)
    assert again.state() == state
    _, updates = run_steps([points(4, value=100.0)] * 9, scaling=again, start=3)
    list(updates)
    assert again.state()["scale"] < state["scale"], "it goes on halving"


def test_fp16_is_refused_without_cuda():
    with pytest.raises(ConfigError, match=r'train\.precision = "fp16": is for CUDA, and this is cpu.*"bf16"'):
        precise("fp16", CPU)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
class TestOnCuda:
    @pytest.mark.parametrize("captured", [False, True])
    def test_fp16_learns_and_nothing_waits_for_the_gpu(self, points, run_steps, captured):
        batch = points(64)
        _, updates = run_steps(
            [batch.pin()] * 60,
            device="cuda",
            precision="fp16",
            captured=captured,
            optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=0.05, fused=True),
        )
        losses = [next(updates), next(updates)]
        torch.cuda.set_sync_debug_mode("error")
        try:
            losses += [next(updates) for _ in range(50)]
        finally:
            torch.cuda.set_sync_debug_mode("default")
        _, plain = run_steps([batch] * 60, optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=0.05))
        expected = [step.loss for step in plain]
        assert losses[-1].loss == pytest.approx(expected[51], rel=0.05)
