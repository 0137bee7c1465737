"""Calibration of the probabilities of labels: one temperature for all logits, fitted on validation data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from weft.metrics import fit_temperature
from weft.tasks.codec import UNSEEN
from weft.tasks.sections import Tree


def calibrate_logits(task: Any, model: nn.Module, batches: Iterable[Any]) -> Tree:
    """Fit the temperature of the model's probabilities and apply it; return it with the number of labels."""
    found = [task.labelled_logits(model, batch) for batch in batches]
    logits, labels = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
    known = labels.flatten(1).min(1).values != UNSEEN if labels.dim() > 1 else labels != UNSEEN
    logits, labels = logits[known], labels[known]
    temperature = fit_temperature(logits, labels)
    if temperature != 1.0:
        task.set_temperature(model, temperature)
    chosen = task.choose_thresholds(model, logits.double() / temperature, labels)
    return {"temperature": temperature, "examples": len(labels), **chosen}
