"""What stands before the first update: the model on its device, the plan of its batches, how long it is to learn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from weft.run.learning import Learning
from weft.run.preparation import Prepared
from weft.run.stream import Plan, build_plan
from weft.training import choose_device, compile_model, freeze, keep_memory, set_seed, set_threads
from weft.training.compilation import Compilation
from weft.training.ranks import ALONE, Ranks

EVALUATE_EVERY = 1000
"""Updates after which a model is validated even if the epoch is longer."""

LOWER_IS_BETTER = ("loss", "perplexity", "bits_per_character")


@dataclass(frozen=True)
class Setup:
    """`total` updates, `per_epoch` of them an epoch, a validation by `metric` after every so many."""

    device: torch.device
    model: nn.Module
    plan: Plan
    learning: Learning
    compilation: Compilation
    metric: str
    lower_is_better: bool
    per_epoch: int
    total: int
    every: int


def set_up(prepared: Prepared, *, ranks: Ranks = ALONE) -> Setup:
    """All that a configuration says of a training, built; several ranks start from the weights of the first."""
    config, task, settings = prepared.config, prepared.task, prepared.config.train
    set_seed(config.seed)
    set_threads(settings.threads)
    keep_memory()
    device = choose_device(settings.device)
    model = task.build(config.model, task.codec).to(device)
    ranks.same_weights(model)
    freeze(model, settings.freeze)
    plan = build_plan(model, prepared.train, settings, seed=config.seed)
    per_epoch = -(-len(plan.epoch(0)) // settings.accumulate)
    total = settings.steps or (settings.epochs or 1) * per_epoch
    metric = settings.metric or task.metric
    lower = metric in LOWER_IS_BETTER
    return Setup(
        device=device,
        model=model,
        plan=plan,
        learning=Learning(
            task, model, prepared.train, plan, config=config, total=total, lower_is_better=lower, ranks=ranks
        ),
        compilation=compile_model(model, settings.compile, device=device, updates=total),
        metric=metric,
        lower_is_better=lower,
        per_epoch=per_epoch,
        total=total,
        every=settings.evaluate_every or min(per_epoch, EVALUATE_EVERY),
    )
