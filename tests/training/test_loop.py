"""The loop against one written out by hand, and what it does when a gradient is not finite."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor, nn

from weft.errors import Fault
from weft.training import SCHEDULES
from weft.training.finite import can_skip, step_if_finite


def test_a_step_is_the_gradient_of_the_mean_loss(points, run_steps):
    batch = points()
    model, loop = run_steps([batch], clip=0.0)
    twin = nn.Linear(2, 1)
    twin.load_state_dict(model.state_dict())
    (twin(batch.x) - batch.y).square().mean().backward()
    step = next(loop)
    assert step.tokens == 8
    torch.testing.assert_close(model.weight, twin.weight - 0.1 * twin.weight.grad)
    assert step.gradient == pytest.approx(math.hypot(*twin.weight.grad.flatten(), twin.bias.grad.item()), rel=1e-5)


@pytest.mark.parametrize("clip", [0.0, 0.5])
def test_the_loop_is_the_one_everybody_writes(points, run_steps, clip):
    batches = [points(rows, seed=rows) for rows in (8, 3, 5, 1)]
    schedule = SCHEDULES["inverse_sqrt"](2, 9)
    model, loop = run_steps(batches, clip=clip, schedule=schedule)
    twin = nn.Linear(2, 1)
    twin.load_state_dict(model.state_dict())
    optimizer = torch.optim.SGD(twin.parameters(), lr=0.1)
    for number, (step, batch) in enumerate(zip(loop, batches, strict=True), 1):
        optimizer.param_groups[0]["lr"] = 0.1 * schedule(number)
        optimizer.zero_grad()
        loss = (twin(batch.x) - batch.y).square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(twin.parameters(), clip or math.inf)
        optimizer.step()
        assert (step.number, step.tokens) == (number, len(batch.y))
        assert step.loss == pytest.approx(loss.item())
        assert step.gradient == pytest.approx(norm.item())
        assert step.rate == pytest.approx(0.1 * schedule(number))
        assert step.seconds > 0
    torch.testing.assert_close(model.state_dict(), twin.state_dict())


@pytest.mark.covers("L3")
def test_clipping_bounds_the_update(points, run_steps):
    model, loop = run_steps([points(4, value=100.0)], clip=0.5)
    before = torch.cat([weight.detach().flatten().clone() for weight in model.parameters()])
    assert next(loop).gradient > 0.5
    after = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    assert (after - before).norm().item() == pytest.approx(0.1 * 0.5, rel=1e-4)


def test_an_update_reads_its_two_numbers_once_and_nothing_else(points, run_steps, monkeypatch):
    reads = []
    for name in ("item", "tolist", "__float__", "__int__", "__bool__", "numpy", "cpu"):

        def counted(self, *args, _read=getattr(Tensor, name), _name=name):
            reads.append(_name)
            return _read(self, *args)

        monkeypatch.setattr(Tensor, name, counted)
    _, loop = run_steps([points(seed=seed) for seed in range(3)])
    for step in loop:
        assert step.loss > 0
        assert step.gradient > 0
    assert reads == ["tolist"] * 3


def test_a_model_measured_between_updates_goes_on_in_training_mode(points, run_steps):
    model, loop = run_steps([points(), points()])
    for _ in loop:
        assert model.training
        model.eval()


def test_a_gradient_that_is_not_finite_is_never_applied(points, run_steps):
    model, loop = run_steps([points(), points(value=math.nan)])
    next(loop)
    before = model.weight.detach().clone()
    with pytest.raises(Fault, match="not finite at update 2"):
        next(loop)
    assert torch.equal(model.weight, before)


@pytest.mark.parametrize("kind", ["Adam", "AdamW", "SGD"])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_fused_optimizer_leaves_out_what_is_not_finite_by_itself(kind, bad):
    torch.manual_seed(0)
    model, twin = nn.Linear(2, 1), nn.Linear(2, 1)
    twin.load_state_dict(model.state_dict())
    optimizer, plain = (getattr(torch.optim, kind)(of.parameters(), lr=0.1, fused=True) for of in (model, twin))
    assert can_skip(optimizer)
    for value in (1.0, bad, 2.0):
        for parameter, other in zip(model.parameters(), twin.parameters(), strict=True):
            parameter.grad, other.grad = torch.full_like(parameter, value), torch.full_like(other, value)
        step_if_finite(optimizer, torch.tensor(value))
        if math.isfinite(value):
            plain.step()
    torch.testing.assert_close(model.state_dict(), twin.state_dict())


def test_other_optimizers_are_not_trusted_with_that():
    model = nn.Linear(2, 1)
    assert not can_skip(torch.optim.RAdam(model.parameters()))
    assert not can_skip(torch.optim.AdamW(model.parameters(), fused=False))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")
class TestOnCuda:
    def test_nothing_waits_for_the_gpu(self, points, run_steps):
        batches = [points(seed=seed).pin() for seed in range(6)]
        _, loop = run_steps(
            batches,
            device="cuda",
            optimizer=lambda model: torch.optim.AdamW(model.parameters(), fused=True),
        )
        seen = [next(loop), next(loop)]
        torch.cuda.set_sync_debug_mode("error")
        try:
            seen += [next(loop) for _ in range(4)]
        finally:
            torch.cuda.set_sync_debug_mode("default")
        _, here = run_steps(batches, optimizer=lambda model: torch.optim.AdamW(model.parameters(), fused=True))
        for step, other in zip(seen, here, strict=True):
            assert step.loss == pytest.approx(other.loss, rel=1e-2)
            assert step.gradient == pytest.approx(other.gradient, rel=1e-2)

    def test_a_gradient_that_is_not_finite_ends_it_and_is_never_applied(self, points, run_steps):
        batches = [points(), points(value=math.nan), *(points(value=0.0) for _ in range(3))]
        model, loop = run_steps(
            [batch.pin() for batch in batches],
            device="cuda",
            optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1, fused=True),
        )
        with pytest.raises(Fault, match="not finite at update 2"):
            list(loop)
        assert model.weight.isfinite().all()
