"""The stream of batches can begin anywhere, and says where it is."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice

import numpy as np
import pytest

from weft.data import Batches, Examples, Pieces, Ragged
from weft.run.learner import BatchStream, StreamPosition
from weft.tasks import Batch


@dataclass(frozen=True)
class Numbered(Batch):
    rows: list[int]


class Rows:
    """A task whose batches are the numbers of their rows; it counts those it made."""

    def __init__(self):
        self.made = 0

    def collate(self, examples, rows, *, packed, capacity):
        assert not packed
        self.made += 1
        return Numbered(len(rows), rows.tolist())


def stream(start=None):
    lengths = np.random.default_rng(0).integers(1, 30, size=60)
    return BatchStream(Rows(), Examples({}, lengths), Batches(lengths, batch_tokens=100, seed=3), start=start)


@pytest.mark.parametrize("taken", [0, 1, 7, 12, 13, 14, 26, 40])
def test_it_goes_on_with_the_next_batch_and_makes_none_before_it(taken):
    whole = stream()
    batches = list(islice(whole, 60))
    assert len({whole.after(count).epoch for count in range(60)}) > 3
    rest = stream(whole.after(taken))
    assert list(islice(rest, 60 - taken)) == batches[taken:]
    assert rest.task.made == 60 - taken
    assert rest.after(60 - taken) == whole.after(60)


def test_the_end_of_an_epoch_is_the_beginning_of_the_next():
    whole = stream()
    size = len(whole.batches.epoch(0))
    list(islice(whole, size))
    assert whole.after(size) == StreamPosition(1, 0)
    assert whole.after(size - 1) == StreamPosition(0, size - 1)


class Tokens:
    """A task whose batches are the tokens of their rows."""

    def collate(self, examples, rows, *, packed, capacity):
        return Numbered(len(rows), [examples.columns["tokens"][row].tolist() for row in rows])


def test_running_text_is_cut_anew_in_every_epoch_and_alike_wherever_it_begins():
    pieces = Pieces(Ragged.from_lists([range(100), range(100, 130)]), 8)
    examples = Examples({"tokens": pieces.cut(0, seed=0)}, pieces.lengths - 1, pieces=pieces)
    plan = Batches(examples.lengths, batch_tokens=24, seed=3)
    size = len(plan.epoch(0))
    batches = list(islice(BatchStream(Tokens(), examples, plan), 3 * size))
    epochs = [sorted(row for batch in batches[n * size : (n + 1) * size] for row in batch.rows) for n in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    assert (
        list(islice(BatchStream(Tokens(), examples, plan, start=StreamPosition(1, 2)), 2 * size - 2))
        == batches[size + 2 :]
    )
    halves = [half.rows for half in batches[size].origin.halves()]
    assert halves[0] + halves[1] == batches[size].rows, "parts of a batch are of its own epoch"
