"""Schedules, the best model so far, the loop."""

from __future__ import annotations

import json
import math
import os
import signal
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor, nn

from weft.errors import ConfigError, Fault
from weft.tasks import Batch, Loss
from weft.training import (
    OPTIMIZERS,
    SCHEDULES,
    Best,
    Interrupt,
    Journal,
    Step,
    Validated,
    build_optimizer,
    choose_device,
    steps,
)


def test_schedules_by_hand():
    assert [SCHEDULES["constant"](4, 100)(step) for step in (1, 2, 4, 50, 100)] == [0.25, 0.5, 1, 1, 1]
    assert [SCHEDULES["linear"](10, 110)(step) for step in (5, 10, 60, 110)] == [0.5, 1, 0.5, 0]
    cosine = SCHEDULES["cosine"](10, 110)
    assert [round(cosine(step), 6) for step in (5, 10, 35, 60, 110, 200)] == [0.5, 1, 0.853553, 0.5, 0, 0]
    root = SCHEDULES["inverse_sqrt"](100, 10_000)
    assert [root(step) for step in (50, 100, 400, 10_000)] == [0.5, 1, 0.5, 0.1]


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_without_warmup_starts_at_its_peak(name):
    assert SCHEDULES[name](0, 100)(1) == pytest.approx(1, abs=0.02)


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_every_optimizer_goes_downhill(kind):
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    x = torch.randn(64, 3)
    y = x @ torch.tensor([[1.0], [-2.0], [0.5]]) + 3
    optimizer = build_optimizer(model, kind=kind, rate=0.02, weight_decay=0.0)
    losses = []
    for _ in range(200):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0]


def test_weight_decay_leaves_vectors_alone():
    optimizer = build_optimizer(nn.Linear(3, 2), kind="adamw", rate=0.1, weight_decay=0.5)
    decays = {
        tuple(weight.shape): group["weight_decay"] for group in optimizer.param_groups for weight in group["params"]
    }
    assert decays == {(2, 3): 0.5, (2,): 0.0}


def test_the_best_is_kept_and_restored():
    model = nn.Linear(1, 1)
    best = Best(lower_is_better=True, patience=2)
    for step, (score, value) in enumerate([(3.0, 1.0), (1.0, 2.0), (2.0, 3.0), (1.5, 4.0)], 1):
        nn.init.constant_(model.weight, value)
        best.offer(score, step, model)
    assert best.stale
    assert (best.score, best.step) == (1.0, 2)
    best.restore(model)
    assert model.weight.item() == 2.0


def test_of_equal_scores_the_later_model_is_kept_but_patience_runs():
    model = nn.Linear(1, 1)
    best = Best(lower_is_better=False, patience=2)
    assert best.offer(0.0, 1, model)
    assert best.offer(0.0, 2, model)
    assert best.step == 2
    assert not best.stale
    best.offer(0.0, 3, model)
    assert best.stale


@dataclass(frozen=True)
class Numbers(Batch):
    x: Tensor
    y: Tensor


class Regression:
    """Just enough of a task for the loop."""

    def loss(self, model, batch, *, label_smoothing=0.0):
        return Loss((model(batch.x) - batch.y).square().sum(), len(batch.y))


def run_steps(batches, **settings):
    torch.manual_seed(0)
    model = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    options = {"optimizer": optimizer, "schedule": SCHEDULES["constant"](0, 9)} | settings
    return model, steps(model, Regression(), batches, **options)


def test_a_step_is_the_gradient_of_the_mean_loss():
    batch = Numbers(torch.randn(8, 2), torch.randn(8, 1))
    model, loop = run_steps([batch], clip=0.0)
    twin = nn.Linear(2, 1)
    twin.load_state_dict(model.state_dict())
    (twin(batch.x) - batch.y).square().mean().backward()
    step = next(loop)
    assert step.tokens == 8
    torch.testing.assert_close(model.weight, twin.weight - 0.1 * twin.weight.grad)
    assert step.gradient == pytest.approx(math.hypot(*twin.weight.grad.flatten(), twin.bias.grad.item()), rel=1e-5)


def test_clipping_bounds_the_update():
    batch = Numbers(torch.full((4, 2), 100.0), torch.zeros(4, 1))
    model, loop = run_steps([batch], clip=0.5)
    before = torch.cat([weight.detach().flatten().clone() for weight in model.parameters()])
    assert next(loop).gradient > 0.5
    after = torch.cat([weight.detach().flatten() for weight in model.parameters()])
    assert (after - before).norm().item() == pytest.approx(0.1 * 0.5, rel=1e-4)


def test_a_gradient_that_is_not_finite_is_never_applied():
    good = Numbers(torch.randn(4, 2), torch.randn(4, 1))
    bad = Numbers(torch.full((4, 2), math.nan), torch.zeros(4, 1))
    model, loop = run_steps([good, bad])
    next(loop)
    before = model.weight.detach().clone()
    with pytest.raises(Fault, match="not finite at update 2"):
        next(loop)
    assert torch.equal(model.weight, before)


def test_the_first_signal_is_noted_and_the_second_interrupts():
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_the_journal_has_a_line_for_every_tenth_update_and_every_validation(tmp_path):
    with Journal(tmp_path / "metrics.jsonl") as journal:
        for number in range(1, 21):
            journal.write(Step(number, 1.0 / number, 10, 0.1, 1.0, 0.01))
        journal.write(Validated(20, {"accuracy": 0.5}, best=True))
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines] == [1, 10, 20, 20]
    assert lines[-1]["valid"] == {"accuracy": 0.5}


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"train\.device"):
        choose_device("abacus")
