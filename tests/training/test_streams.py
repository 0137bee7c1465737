"""Running text in parallel streams, and a state that goes from batch to batch."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from weft.data import Examples, Ragged
from weft.errors import ConfigError
from weft.models import (
    ConvolutionalConfig,
    RecurrentLanguageConfig,
    TransformerDecoderConfig,
    build_language_model,
)
from weft.nn import choose_cell, leaves_of
from weft.tasks import TASKS, Codec
from weft.text import EOS, SOS, TextConfig, Tokenizer
from weft.training import Carry, Streams


def text(rows, **options):
    column = Ragged.from_lists(rows, **options)
    return Examples({"tokens": column}, column.lengths, None, ())


def task_of(name="lm", **data):
    codec = Codec({"": Tokenizer.learn(["abc"], TextConfig(kind="char"))}, ("x", "y"))
    kind = TASKS[name]
    return kind(codec, kind.sections.data(train="text.txt", **data))


def model_of(config):
    torch.manual_seed(0)
    return build_language_model(config, 20)


RECURRENT = RecurrentLanguageConfig(embedding=6, hidden=6, layers=2, dropout=0.0)
STREAM = {"unit": "stream"}


def test_streams_by_hand():
    streams = Streams(text([list(range(13))]), batch_tokens=4, truncate=2)
    assert list(streams.epoch(0)) == [0, 1, 2]
    first, second, third = (streams.collate(number) for number in streams.epoch(0))
    assert first.tokens.tolist() == [[0, 1], [6, 7]]
    assert first.expected.tolist() == [1, 2, 7, 8]
    assert second.tokens.tolist() == [[2, 3], [8, 9]]
    assert third.tokens.tolist() == [[4, 5], [10, 11]]
    assert third.expected.tolist() == [5, 6, 11, 12]
    assert [batch.first for batch in (first, second, third)] == [True, False, False]
    assert (first.count, first.lengths.tolist()) == (4, [2, 2])


def test_a_text_of_several_pieces_is_read_across_them():
    """The second row overlaps the first by a token; the third begins another text."""
    streams = Streams(text([[1, 10, 11, 12], [12, 13, 14], [1, 20, 21]]), batch_tokens=7, truncate=7)
    batch = streams.collate(0)
    assert batch.tokens.tolist() == [[1, 10, 11, 12, 13, 1, 20]]
    assert batch.expected.tolist() == [10, 11, 12, 13, 14, 20, 21]


@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12).filter(lambda lengths: sum(lengths) > len(lengths)),
    batch_tokens=st.integers(1, 40),
    truncate=st.integers(1, 12),
    memory=st.sampled_from([0, 1000]),
)
def test_every_token_is_read_once_and_in_order(lengths, batch_tokens, truncate, memory):
    numbers = iter(range(sum(lengths)))
    rows = [[next(numbers) for _ in range(length)] for length in lengths]
    streams = Streams(text(rows, memory=memory), batch_tokens=batch_tokens, truncate=truncate)
    batches = [streams.collate(number) for number in streams.epoch(3)]
    read = torch.cat([batch.tokens for batch in batches], dim=1).flatten()
    expected = torch.cat([batch.expected.view_as(batch.tokens) for batch in batches], dim=1).flatten()
    pairs = [pair for row in rows for pair in pairwise(row)]
    left_out = len(pairs) - len(read)
    assert list(zip(read.tolist(), expected.tolist(), strict=True)) == pairs[: len(read)]
    assert 0 <= left_out < streams.count
    assert all(batch.tokens.size(1) <= truncate for batch in batches)
    assert sum(batch.count for batch in batches) == len(read)


@pytest.mark.parametrize("memory", [0, 1000])
def test_with_a_seed_every_epoch_begins_elsewhere_and_goes_round(memory):
    column = Ragged.from_lists([range(14), range(100, 107)], memory=memory)
    examples = Examples({"tokens": column}, column.lengths)
    streams = Streams(examples, batch_tokens=8, truncate=4, seed=0)
    pairs = [pair for row in column for pair in pairwise(row.tolist())]
    begins = set()
    for epoch in range(12):
        batches = [streams.collate(number) for number in streams.epoch(epoch)]
        read = torch.cat([batch.tokens for batch in batches], dim=1)
        lengths = [batch.expected.numel() // 2 for batch in batches]
        expected = torch.cat([b.expected.view(2, n) for b, n in zip(batches, lengths, strict=True)], dim=1)
        begin = pairs.index((int(read[0, 0]), int(expected[0, 0])))
        turned = (pairs[begin:] + pairs[:begin])[: read.numel()]
        assert list(zip(read.flatten().tolist(), expected.flatten().tolist(), strict=True)) == turned
        assert [batch.first for batch in batches] == [True, False, False]
        begins.add(begin)
    assert len(begins) > 4
    assert torch.equal(
        streams.collate(7).tokens, Streams(examples, batch_tokens=8, truncate=4, seed=0).collate(7).tokens
    )


def test_the_carried_state_makes_one_pass_of_all_batches():
    streams = Streams(text([np.random.default_rng(0).integers(4, 20, 31).tolist()]), batch_tokens=6, truncate=3)
    model = model_of(RECURRENT)
    carry = Carry(task_of(**STREAM), model, truncate=3)
    batches = [streams.collate(number) for number in streams.epoch(0)]
    total = sum(carry.loss(model, batch).total for batch in batches)
    tokens = torch.cat([batch.tokens for batch in batches], dim=1)
    expected = torch.cat([batch.expected.view(2, -1) for batch in batches], dim=1)
    torch.testing.assert_close(total, model.output.loss(model(tokens).flatten(0, 1), expected.flatten()))
    assert not any(leaf.requires_grad for leaf in leaves_of(carry.carried))
    again = carry.loss(model, batches[0])
    torch.testing.assert_close(again.total, Carry(task_of(**STREAM), model, truncate=3).loss(model, batches[0]).total)


def test_a_restored_state_goes_on_as_if_nothing_had_happened():
    streams = Streams(text([np.random.default_rng(0).integers(4, 20, 31).tolist()]), batch_tokens=6, truncate=3)
    model = model_of(RECURRENT)
    carry, again = (Carry(task_of(**STREAM), model, truncate=3) for _ in range(2))
    carry.loss(model, streams.collate(0))
    again.restore(carry.state())
    assert all(map(torch.equal, again.state()["leaves"], carry.state()["leaves"]))
    for number in (1, 2):
        assert torch.equal(
            again.loss(model, streams.collate(number)).total, carry.loss(model, streams.collate(number)).total
        )


def test_before_the_first_batch_there_is_nothing_to_keep():
    carry = Carry(task_of(**STREAM), model_of(RECURRENT), truncate=3)
    assert carry.state() == {"leaves": []}
    carry.restore({"leaves": []})
    assert carry.carried is None


@pytest.mark.parametrize("config", [ConvolutionalConfig(), TransformerDecoderConfig()], ids=["conv", "transformer"])
def test_a_model_without_a_recurrent_state_is_refused(config):
    with pytest.raises(ConfigError, match=r'train\.truncate = 35: needs a model with a recurrent state.*kind = "rnn"'):
        Carry(task_of(**STREAM), model_of(config), truncate=35)


def test_a_task_without_texts_to_read_on_in_is_refused():
    with pytest.raises(ConfigError, match=r'train\.truncate = 35: needs texts to read on in.*task = "lm"'):
        Carry(task_of("classify"), model_of(RECURRENT), truncate=35)


def documents(sizes, seed=0):
    random = np.random.default_rng(seed)
    return [[SOS, *random.integers(4, 20, size).tolist(), EOS] for size in sizes]


@pytest.mark.parametrize("cell", ["gru", "min_gru"])
@pytest.mark.parametrize("truncate", [1, 5, 100])
def test_texts_in_a_row_have_the_loss_that_they_have_alone(truncate, cell):
    """Texts shorter and longer than a piece, and one without a token."""
    rows = documents([3, 1, 0, 12, 7, 2])
    streams = Streams(text(rows), batch_tokens=truncate, truncate=truncate, whole=True)
    assert streams.count == 1
    model = model_of(RECURRENT.model_copy(update={"cell": choose_cell(cell)}))
    task = task_of(unit="line")
    carry = Carry(task, model, truncate=truncate)
    batches = [streams.collate(number) for number in streams.epoch(0)]
    assert sum(batch.tokens.numel() for batch in batches) == sum(len(row) - 1 for row in rows)
    together = sum(carry.loss(model, batch).total for batch in batches)
    alone = [task.loss(model, task.collate(text([row]), [0])).total for row in rows]
    torch.testing.assert_close(together, sum(alone), rtol=1e-5, atol=1e-5)


def test_no_text_sees_the_one_before_it():
    """Of two rows of texts that differ in the first text alone, the gradient of that text's tokens too."""
    one, other = documents([6, 4], seed=1), documents([6, 4], seed=2)
    other[1] = one[1]
    model = model_of(RECURRENT)
    found = []
    for rows in (one, other):
        batch = Streams(text(rows), batch_tokens=50, truncate=50, whole=True).collate(0)
        hidden, state = model.follow(batch.tokens, None, batch.tokens == SOS)
        model.zero_grad()
        hidden[:, 7:].sum().backward()
        used = model.decoder.embedding.weight.grad.abs().sum(1) > 0
        found.append([hidden[:, 7:], *leaves_of(state), used])
    torch.testing.assert_close(*found)
    assert set(used.nonzero().flatten().tolist()) == set(one[1][:-1])


def test_a_running_text_goes_on_past_what_begins_its_files():
    streams = Streams(text([[SOS, 5, 6, 7, 8]]), batch_tokens=4, truncate=4)
    model = model_of(RECURRENT)
    batch = streams.collate(0)
    first, again = Carry(task_of(**STREAM), model, truncate=4), Carry(task_of(unit="line"), model, truncate=4)
    for carry in (first, again):
        carry.carried = (model.follow(torch.tensor([[9, 9]]))[1],)
    later = replace(batch, first=False)
    assert first.loss(model, later).total != again.loss(model, later).total
    torch.testing.assert_close(
        again.loss(model, later).total, Carry(task_of(unit="line"), model, truncate=4).loss(model, batch).total
    )


def test_texts_in_a_row_are_evaluated_each_by_itself(weft, tmp_path):
    texts = tmp_path / "texts.txt"
    texts.write_text("abc\nab ab\nc a b\nbab\n" * 5, encoding="utf-8")
    small = ["train.truncate=4", "train.batch_tokens=16", "train.epochs=1", "model.hidden=4", "model.embedding=4"]
    for unit, carries in (("line", False), ("stream", True)):
        given = [f"data.unit={unit}", f"data.valid={texts}", "text.kind=char"]
        outcome = weft("train", "lm", str(texts), "--out", str(tmp_path / unit), *given, *small)
        assert outcome.code == 0, outcome.err
        assert ("carried through" in outcome.out + outcome.err) == carries
