"""A rehearsal: the largest batch first, a guess of time and memory, nothing on disk."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from weft.config import read_config
from weft.data import Batches, PackedBatches
from weft.errors import Fault
from weft.run import dry_run as module
from weft.run.dry_run import DryRun, LargestBatch, dry_run, find_largest, show_seconds
from weft.run.prepare import prepare

SMALL = {"embedding": 8, "hidden": 8}


@pytest.fixture
def prepared(texts):
    tree = {"task": "lm", "data": {"train": texts}, "model": SMALL, "train": {"steps": 500, "evaluate_every": 40}}
    return prepare(read_config(tree))


def test_it_tells_what_a_training_takes_and_leaves_nothing(prepared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    found = dry_run(prepared)
    assert sorted(tmp_path.iterdir()) == before
    assert (found.updates, found.validations) == (500, 13)
    assert found.largest is not None
    assert found.largest.longest == int(prepared.train.lengths.max())
    assert found.update_seconds > 0
    assert found.validation_seconds > 0
    assert found.memory > 50 * 2**20, "a process with torch in it takes more"
    assert found.seconds == pytest.approx(500 * found.update_seconds + 13 * found.validation_seconds)
    assert any("500 updates and 13 validations" in line for line in found.lines())
    assert found.lines()[0].startswith("note no data.valid")


def test_the_largest_batch_comes_first(prepared, monkeypatch):
    seen = []
    collate = prepared.task.collate

    def spy(examples, rows, **options):
        if examples.columns is prepared.train.columns:
            seen.append(rows)
        return collate(examples, rows, **options)

    monkeypatch.setattr(prepared.task, "collate", spy)
    dry_run(prepared)
    lengths = prepared.train.lengths
    sizes = [len(rows) * int(lengths[rows].max()) for rows in seen]
    assert len(seen) == 1 + module.WARMUP_UPDATES + module.TIMED_UPDATES
    assert sizes[0] == max(sizes)


@pytest.mark.parametrize("kind", [Batches, PackedBatches])
def test_the_largest_batch_counts_padding_and_empty_room(kind):
    lengths = np.random.default_rng(0).integers(1, 60, size=(300, 2))
    plan = kind(lengths, batch_tokens=200)
    sizes = [
        sum(plan.capacity(rows).tokens) if kind is PackedBatches else len(rows) * int(lengths[rows].max(0).sum())
        for rows in plan.epoch(0)
    ]
    found = find_largest(plan)
    rows = plan.epoch(0)[found.place]
    assert sizes[found.place] == max(sizes) > min(sizes)
    assert (found.rows, found.longest) == (len(rows), lengths[rows].max())


def test_truncated_text_is_read_from_its_beginning(texts):
    train = {"steps": 500, "truncate": 5, "batch_tokens": 40}
    tree = {"task": "lm", "data": {"train": texts, "valid": texts, "unit": "stream"}, "model": SMALL, "train": train}
    found = dry_run(prepare(read_config(tree)))
    assert found.largest == LargestBatch(0, rows=8, longest=5)


def test_too_little_memory_names_the_setting(prepared, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("out of memory")

    monkeypatch.setattr(module, "time_updates", fail)
    with pytest.raises(Fault, match=r"train\.batch_tokens = 1024.*train\.accumulate"):
        dry_run(prepared)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.0125, "12 ms"), (3.04, "3.0 s"), (150, "2.5 min"), (9000, "2.5 h"), (2e5, "2.3 days")]
)
def test_times_are_shown_in_their_unit(seconds, shown):
    assert show_seconds(seconds) == shown


def test_notes_come_first():
    found = DryRun(1, "cpu", 2, None, 2**30, update_seconds=1, validations=1, validation_seconds=1, notes=("a",))
    assert found.lines()[0] == "note a"
    assert "memory at the peak: 1.00 GiB" in found.lines()
