"""Batches: what is expected where, padded and packed alike; moving and pinning them."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from weft.config import validate
from weft.data import Labelled, Pair, Ragged, Tagged, Text
from weft.nn import Packing
from weft.tasks import TASKS, encode
from weft.tasks.shift import lay, shift

RECORDS = {
    "lm": [Text("one two", ""), Text("three", ""), Text("", "")],
    "mask": [Text("one two", ""), Text("three", ""), Text("", "")],
    "translate": [Pair("one two", "un deux trois", ""), Pair("three", "trois", ""), Pair("a b c d", "a", "")],
    "classify": [Labelled("one two", "x", ""), Labelled("three", "y", ""), Labelled("a b c", "x", "")],
    "tag": [Tagged(("one", "two"), ("x", "y"), ""), Tagged(("three",), ("y",), "")],
}
SMALL = {"kind": "transformer", "width": 8, "heads": 2, "layers": 1, "dropout": 0.0}


def build(task, model=None):
    """The task, its model, its examples."""
    torch.manual_seed(0)
    model = model or ({"encoder": SMALL, "decoder": SMALL} if task == "translate" else SMALL)
    text = {"kind": "word" if task == "tag" else "char"}
    config = validate({"task": task, "data": {"train": "x"}, "text": text, "model": model})
    kind = TASKS[task]
    made = kind(kind.learn(RECORDS[task], config.text), config.data)
    return made, kind.build(config.model, made.codec).eval(), encode(made, RECORDS[task])


@settings(deadline=None)  # the first use of torch takes longer than the rest together
@given(st.lists(st.lists(st.integers(1, 9), max_size=6), min_size=1, max_size=6), st.data())
def test_shifted_rows_pair_each_token_with_the_next(rows, data):
    column = Ragged.from_lists(rows)
    chosen = data.draw(st.lists(st.sampled_from(range(len(rows))), min_size=1, max_size=8))
    pairs = [pair for row in chosen for pair in zip(rows[row], rows[row][1:], strict=False)]
    padded, packed = (shift(column, chosen, packed=packed) for packed in (False, True))
    assert padded.lengths.tolist() == packed.lengths.lengths.tolist() == [max(len(rows[row]) - 1, 0) for row in chosen]
    flat = padded.tokens.flatten()
    read = flat if padded.places is None else flat[padded.places]
    assert list(zip(read.tolist(), padded.expected.tolist(), strict=True)) == pairs
    assert list(zip(packed.tokens.tolist(), packed.expected.tolist(), strict=True)) == pairs
    assert packed.places is None
    assert_close(packed.lengths.pad(packed.tokens), padded.tokens)


def test_laid_rows_are_the_same_padded_and_packed():
    column = Ragged.from_lists([[5, 6, 7], [8], [9, 10]])
    tokens, lengths = lay(column, [2, 0], packed=False)
    flat, packing = lay(column, [2, 0], packed=True)
    assert (tokens.tolist(), lengths.tolist()) == ([[9, 10, 0], [5, 6, 7]], [2, 3])
    assert_close(packing.pad(flat), tokens)


@pytest.mark.parametrize("task", ["lm", "mask", "translate", "classify"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_a_packed_batch_has_the_loss_of_a_padded_one(task, label_smoothing):
    made, model, examples = build(task)
    rows = np.arange(len(examples))
    padded, packed = (
        made.loss(model, made.collate(examples, rows, packed=packed), label_smoothing=label_smoothing)
        for packed in (False, True)
    )
    assert padded.count == packed.count
    assert_close(packed.total, padded.total, atol=1e-4, rtol=1e-5)


@pytest.mark.covers("L1")
def test_the_loss_is_the_cross_entropy_of_real_tokens():
    made, model, examples = build("translate", {"encoder": {"hidden": 8}, "decoder": {"hidden": 8}})
    assert not model.packs
    total, count = torch.zeros(()), 0
    for row in range(len(examples)):
        source, target = (torch.from_numpy(examples.columns[side][row]).long()[None] for side in ("source", "target"))
        hidden = model(source, torch.tensor([source.size(1)]), target[:, :-1])
        total = total + F.cross_entropy(model.output(hidden)[0], target[0, 1:], reduction="sum")
        count += target.size(1) - 1
    loss = made.loss(model, made.collate(examples, np.arange(len(examples))))
    assert loss.count == count
    assert_close(loss.total, total, atol=1e-4, rtol=1e-5)


def test_tags_and_labels_that_training_never_saw_do_not_count():
    for task in ("tag", "classify"):
        made, model, _ = build(task)
        record = made.record("one two")
        examples = encode(made, [*RECORDS[task], record])
        known = made.loss(model, made.collate(examples, range(len(RECORDS[task]))))
        both = made.loss(model, made.collate(examples, range(len(examples))))
        assert both.count == known.count == (3 if task == "tag" else len(RECORDS[task]))
        assert_close(both.total, known.total, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("packed", [False, True])
def test_moving_a_batch_moves_tensors_and_packings_and_leaves_the_rest(packed):
    made, _, examples = build("translate")
    batch = made.collate(examples, [0, 1], packed=packed)
    moved = batch.to(torch.device("meta"))
    assert moved.source.is_meta
    assert moved.expected.is_meta
    if packed:
        assert isinstance(moved.source_lengths, Packing)
        assert moved.source_lengths.offsets.is_meta
        assert moved.source_lengths.longest == batch.source_lengths.longest
        assert moved.places is None
    labelled, _, examples = build("classify")
    assert labelled.collate(examples, [0, 2]).to(torch.device("meta")).count == 2


def test_pinning_pins_every_tensor(monkeypatch):
    """No GPU here: what is asked to be pinned is counted."""
    made, _, examples = build("translate")
    pinned = []
    monkeypatch.setattr(torch.Tensor, "pin_memory", lambda tensor: pinned.append(tensor) or tensor)
    made.collate(examples, [0, 1], packed=True).pin()
    assert len(pinned) == 3 + 2 * 3, "source, target, expected, and three of each packing"


def test_the_cost_of_a_pair_is_what_each_side_takes_in_a_batch():
    made, _, examples = build("translate")
    for row in range(len(examples)):
        batch = made.collate(examples, [row])
        assert examples.lengths[row].tolist() == [batch.source.size(1), batch.target.size(1)]
