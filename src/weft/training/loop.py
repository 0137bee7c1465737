"""The training loop: a generator of updates. Its caller decides on logging, evaluation and stopping.

for update in steps(model, objective, batches, optimizer=optimizer, schedule=schedule):
    journal.write(update)
    if update.number % every == 0:
        …evaluate, save, break

The objective is the task, or a wrapper around it such as scheduled sampling (`training/objective.py`).
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import replace

import torch
from torch import nn

from weft.data import chunks
from weft.tasks import Batch
from weft.training.events import Update
from weft.training.fitting import try_largest
from weft.training.objective import Objective
from weft.training.schedule import Schedule
from weft.training.update import LoopOptions, Updater


def steps(
    model: nn.Module,
    objective: Objective,
    batches: Iterable[Batch],
    *,
    optimizer: torch.optim.Optimizer,
    schedule: Schedule,
    options: LoopOptions = LoopOptions(),
    start: int = 0,
    largest: Batch | None = None,
) -> Iterator[Update]:
    """Update the model once per `options.accumulate` batches, by the gradient of their mean loss; yield each update.

    A resumed training has made `start` updates: numbers and schedule continue after them, and `batches` begins with the
    next one. The `largest` batch is computed once before all others, so that a lack of memory shows at once. A batch
    that does not fit into the memory of a GPU is computed in parts if it knows its origin, and else raises a Fault.

    On CUDA the loop queues the next update while the last one still runs; `training/update.py` has the parts.
    """
    updater = Updater(model, objective, optimizer=optimizer, schedule=schedule, options=options)
    if largest is not None:
        updater.begin(start + 1)
        try_largest(updater.gradients, largest, model, optimizer)
    began = time.perf_counter()
    for number, group in enumerate(chunks(batches, options.accumulate), start + 1):
        rate = updater.begin(number)  # learning rate, training mode, no gradients
        gathered = updater.gather(group)  # forward, backward, sum over batches and processes, clip
        update = Update(number, gathered.tokens, rate, 0.0, gathered.numbers, gathered.origins)
        notes = updater.apply(gathered, update)  # the optimizer's step; checks that numbers are finite
        yield replace(update, seconds=time.perf_counter() - began, notes=notes)
        began = time.perf_counter()
    updater.check_rest()
