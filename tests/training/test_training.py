"""Schedules, optimizers, the best model so far, signals, devices."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import signal

import pytest
import torch
from rich.console import Console
from torch import nn

from weft.errors import ConfigError
from weft.training import OPTIMIZERS, SCHEDULES, Best, Interrupt, Plateau, TrainConfig, build_optimizer, choose_device
from weft.training.events import Ended, Validated
from weft.training.progress import Watch


@pytest.mark.covers("L5")
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


@pytest.mark.covers("L5")
def test_a_plateau_cuts_the_rate_after_validations_without_progress():
    plateau = Plateau(4, 100, factor=0.5, patience=2)
    shares = []
    for progress in (True, True, False, False, True, False, False, False, False):
        plateau.observe(progress=progress)
        shares.append(plateau(50))
    assert shares == [1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.125]
    assert plateau(2) == 0.5 * 0.125, "in the warm-up too"


@pytest.mark.parametrize("before", [(), (True,), (True, False, False, True, False)])
def test_a_plateau_goes_on_where_it_was(before):
    plateau, again = Plateau(0, 100), Plateau(0, 100)
    for progress in before:
        plateau.observe(progress=progress)
    again.restore(json.loads(json.dumps(plateau.state(), allow_nan=False)))
    for progress in (True, False, False, False):
        plateau.observe(progress=progress)
        again.observe(progress=progress)
        assert again(9) == plateau(9)
    assert again.state() == plateau.state()


def test_settings_of_a_plateau_belong_to_it():
    assert TrainConfig(schedule="plateau", plateau_factor=0.1).plateau_factor == 0.1
    with pytest.raises(ValueError, match=r'plateau_patience = 5: does nothing with schedule = "cosine"'):
        TrainConfig(plateau_patience=5)


def test_beta2_is_the_memory_of_adam_and_nothing_to_sgd():
    model = nn.Linear(3, 1)
    for kind in OPTIMIZERS:
        [group, *_] = build_optimizer(model, kind=kind, rate=0.1, weight_decay=0.0, beta2=0.98).param_groups
        assert group.get("betas") == (None if kind == "sgd" else (0.9, 0.98))
    assert TrainConfig(optimizer="sgd", beta2=0.999).beta2 == 0.999, "as a filled configuration says it"
    with pytest.raises(ValueError, match=r'beta2 = 0\.98: does nothing with optimizer = "sgd"'):
        TrainConfig(optimizer="sgd", beta2=0.98)


@pytest.mark.covers("L4")
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


@pytest.mark.covers("L4")
@pytest.mark.parametrize("momentum", [0.0, 0.9, 0.5])
def test_sgd_is_its_equation(momentum):
    """v ← μ v + g;  w ← w - η v, from v = 0; without momentum nothing is kept."""
    torch.manual_seed(0)
    model = nn.Linear(3, 1, bias=False)
    optimizer = build_optimizer(model, kind="sgd", rate=0.1, weight_decay=0.0, momentum=momentum)
    w, v = model.weight.detach().clone(), torch.zeros(1, 3)
    for x in torch.randn(5, 4, 3):
        optimizer.zero_grad()
        model(x).square().sum().backward()
        v = momentum * v + 2 * (w @ x.T) @ x
        w = w - 0.1 * v
        optimizer.step()
        torch.testing.assert_close(model.weight.detach(), w)
    assert len(optimizer.state) == (momentum > 0)


def test_momentum_is_a_setting_of_sgd():
    assert TrainConfig(optimizer="sgd", momentum=0.0).momentum == 0.0
    with pytest.raises(ValueError, match=r'momentum = 0\.5: does nothing with optimizer = "adamw"'):
        TrainConfig(momentum=0.5)


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


def offers(best, scores):
    """Offer models with these scores and losses; which of them were taken."""
    model = nn.Linear(1, 1)
    return [best.offer(score, step, model, loss=loss) for step, (score, loss) in enumerate(scores, 1)]


def test_of_equal_scores_the_lower_loss_is_kept_and_of_equal_losses_the_earlier():
    best = Best(lower_is_better=False, patience=9)
    taken = offers(best, [(0.5, 2.0), (0.5, 1.0), (0.5, 1.0), (0.5, 3.0), (0.6, 9.0), (0.6, math.nan)])
    assert taken == [True, True, False, False, True, False]
    assert (best.score, best.loss, best.step) == (0.6, 9.0, 5)


def test_training_is_not_stale_while_the_loss_falls():
    best = Best(lower_is_better=False, patience=2)
    assert offers(best, [(0.3, 5.0), (0.0, 4.0), (0.0, 3.0), (0.0, 2.0)]) == [True, False, False, False]
    assert best.since == 0
    offers(best, [(0.0, 2.0)])
    assert not best.stale
    offers(best, [(0.1, 2.5)])
    assert best.stale, "neither a better score nor a lower loss, twice"


def test_a_first_score_that_is_no_number_is_passed_by_any_other():
    best = Best(lower_is_better=True, patience=2)
    assert offers(best, [(math.nan, math.nan), (7.0, 7.0), (math.nan, math.nan)]) == [True, True, False]
    assert best.step == 2


def test_the_last_model_is_kept_where_there_is_too_little_to_choose_by():
    best = Best(lower_is_better=False, patience=1, last=True)
    assert offers(best, [(0.5, 1.0), (0.0, 2.0), (0.0, 3.0)]) == [True, True, True]
    assert best.step == 3
    assert not best.stale


def test_the_best_goes_on_where_it_was_and_from_checkpoints_without_losses():
    best, again, old = (Best(lower_is_better=False, patience=9) for _ in range(3))
    offers(best, [(0.3, 5.0), (0.2, 4.0), (0.2, 4.5)])
    state = json.loads(json.dumps(best.state()))
    again.resume(state)
    assert again.state() == best.state() == {"score": 0.3, "loss": 5.0, "lowest": 4.0, "step": 1, "since": 1}
    old.resume({name: state[name] for name in ("score", "step", "since")})
    assert not old.improves(0.2, loss=0.1)
    assert old.improves(0.3, loss=8.0)


def test_the_first_signal_is_noted_and_the_second_interrupts():
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.signal == signal.SIGTERM
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="the system has no SIGHUP")
def test_a_closed_terminal_is_noted_unless_its_signal_is_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGHUP)
            assert interrupt.signal == signal.SIGHUP
        signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup starts a process
        with Interrupt() as interrupt:
            os.kill(os.getpid(), signal.SIGHUP)
            assert not interrupt.signal
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_is_closed_is_shown_nothing_more():
    class Closed(io.StringIO):
        def write(self, text):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    watch = Watch(console=Console(file=Closed()))
    with watch:
        watch.show(Validated(1, {"loss": 0.5}, best=True))
        assert watch.quiet
        watch.show(Ended(1, "stopped by SIGHUP", signal.SIGHUP))


@pytest.mark.parametrize("value", ["auto", True, False])
def test_compile_is_auto_true_or_false(value):
    assert TrainConfig(compile=value).compile is value
    with pytest.raises(ValueError, match='compile = "maybe" is not one of auto, true, false'):
        TrainConfig(compile="maybe")


def test_a_device_that_is_not_there_is_named():
    with pytest.raises(ConfigError, match=r"train\.device"):
        choose_device("abacus")
