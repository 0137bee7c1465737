"""What stands before the first update: the model on its device, the plan of its batches, how long it is to learn."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from weft.config.schema import check_metric
from weft.run.fits import check_fits
from weft.run.learning import Learning
from weft.run.preparation import Prepared
from weft.run.stream import Plan, build_plan
from weft.training import choose_device, compile_model, freeze, keep_memory, set_seed, set_threads
from weft.training.compilation import Compilation
from weft.training.ranks import ALONE, Ranks

EVALUATE_EVERY = 1000
"""Updates after which a model is validated even if the epoch is longer."""

VALIDATIONS = 60
"""Validations at most where epochs are shorter than `EVALUATE_EVERY`: a few lines have thousands of epochs."""

FEW_EXAMPLES, FEW_TOKENS = 10, 1000
"""Of validation data with less than both a score is chance, and to choose by it, too."""


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
    last: bool
    """Whether the last model is kept whatever its score, because there is too little to choose by."""
    per_epoch: int
    total: int
    every: int


def set_up(prepared: Prepared, *, ranks: Ranks = ALONE) -> Setup:
    """All that a configuration says of a training, built; several ranks start from the weights of the first."""
    config, task, settings = prepared.config, prepared.task, prepared.config.train
    metric = settings.metric or task.metric
    check_metric(metric, task.metrics)
    check_fits(config, task.codec)
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
    return Setup(
        device=device,
        model=model,
        plan=plan,
        learning=Learning(task, model, prepared.train, plan, config=config, total=total, ranks=ranks),
        compilation=compile_model(model, settings.compile, device=device, updates=total),
        metric=metric,
        lower_is_better=metric in task.lower_is_better,
        last=too_few(prepared),
        per_epoch=per_epoch,
        total=total,
        every=settings.evaluate_every or min(max(per_epoch, -(-total // VALIDATIONS)), EVALUATE_EVERY),
    )


def too_few(prepared: Prepared) -> bool:
    """Whether so little was set aside for validation that it cannot choose; what a person gave always does."""
    lengths = prepared.valid.lengths
    return prepared.config.data.valid is None and len(lengths) < FEW_EXAMPLES and int(lengths.sum()) < FEW_TOKENS
