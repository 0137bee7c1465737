"""The only evaluation there is: sums over batches first, one division at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from weft.data import Batches, Examples
from weft.decoding import DecodeConfig
from weft.tasks import Batch, Prediction, Task, Tree

BATCH_TOKENS = 4096
"""Tokens in a batch where nothing is learned."""


class Evaluation(NamedTuple):
    """The numbers, and what explains them."""

    metrics: dict[str, float]
    details: Tree


def evaluate(task: Task, model: nn.Module, examples: Examples, *, decode: DecodeConfig) -> Evaluation:
    """Score the model on examples with known answers."""
    scores = task.scores()
    with torch.inference_mode():
        for _, batch, records in _batches(task, model, examples):
            task.measure(model, batch, scores, records=records, decode=decode)
    return Evaluation(scores.metrics(), scores.details())


def predict(task: Task, model: nn.Module, examples: Examples, *, decode: DecodeConfig) -> list[Prediction]:
    """An answer for each example, in the order of the examples."""
    answers: dict[int, Prediction] = {}
    with torch.inference_mode():
        for rows, batch, records in _batches(task, model, examples):
            found = task.predict(model, batch, records=records, decode=decode, keys=rows)
            answers.update(zip(rows, found, strict=True))
    return [answers[row] for row in range(len(examples))]


def _batches(task: Task, model: nn.Module, examples: Examples) -> Iterator[tuple[Sequence[int], Batch, Sequence[Any]]]:
    device = next(model.parameters()).device
    model.eval()
    for rows in Batches(examples.lengths, batch_tokens=BATCH_TOKENS).in_order():
        yield rows.tolist(), task.collate(examples, rows).to(device), examples.pick(rows)
