"""Running text is cut elsewhere in every epoch, and nothing of it is forgotten."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.data import PackedBatches, Pieces, Ragged


def texts(lengths, **options):
    """Rows of numbers that go on from row to row."""
    ends = np.cumsum(lengths).tolist()
    return Ragged.from_lists([range(end - length, end) for end, length in zip(ends, lengths, strict=True)], **options)


def test_pieces_by_hand():
    pieces = Pieces(texts([19, 5, 3]), 4)
    assert pieces.lengths.tolist() == [5] * 5 + [5] + [3]
    rows = [row.tolist() for row in pieces.cut(0, seed=0)]
    begin = rows[1][0]
    assert begin in range(4)
    assert rows[0] == [0, 1, 2, 3, 4]
    assert rows[1:4] == [list(range(begin + start, begin + start + 5)) for start in (0, 4, 8)]
    assert rows[4:] == [[14, 15, 16, 17, 18], [19, 20, 21, 22, 23], [24, 25, 26]]


def test_every_offset_comes_and_every_token_is_learned():
    pieces = Pieces(texts([41]), 4)
    epochs = [pieces.cut(number, seed=1) for number in range(60)]
    assert {int(epoch[1][0]) for epoch in epochs} == {0, 1, 2, 3}
    expected = np.bincount(np.concatenate([row[1:] for epoch in epochs for row in epoch]), minlength=41)
    assert expected[1:].min() >= 30
    assert expected.sum() == pytest.approx(60 * 40, rel=0.1), "an epoch is about as long as the text"


def test_an_epoch_is_the_same_again_and_another_with_another_seed():
    pieces = Pieces(texts([500, 300]), 7)
    first, again, other = (pieces.cut(3, seed=seed).join(range(len(pieces.lengths))) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@given(
    lengths=st.lists(st.integers(0, 60), min_size=1, max_size=8).filter(lambda lengths: sum(lengths) > 0),
    length=st.integers(1, 12),
    epoch=st.integers(0, 5),
    memory=st.sampled_from([0, 1000]),
)
def test_pieces_stay_within_their_text_and_have_both_its_ends(lengths, length, epoch, memory):
    text = texts(lengths, memory=memory)
    cut = Pieces(text, length).cut(epoch, seed=0)
    rows = [row.tolist() for row in cut]
    assert [len(row) for row in rows] == cut.lengths.tolist() == Pieces(text, length).lengths.tolist()
    for whole in text:
        mine = [row for row in rows if row and row[0] in whole] if len(whole) else []
        assert all(row == list(range(row[0], row[0] + len(row))) and row[-1] in whole for row in mine)
        assert {token for row in mine for token in row} >= set(whole[: length + 1]) | set(whole[-length - 1 :])
        assert all(len(row) == min(len(whole), length + 1) for row in mine)


def test_the_file_of_tokens_stays_open_as_long_as_a_view_needs_it():
    cut = Pieces(texts([50], memory=0), 4).cut(0, seed=0)
    assert cut[0].tolist() == [0, 1, 2, 3, 4]


def test_packed_batches_of_equal_rows_are_full():
    plan = PackedBatches(np.full(1000, 256), batch_tokens=64 * 256)
    assert [len(rows) for rows in sorted(plan.epoch(0), key=len, reverse=True)] == [63] * 15 + [55]
    assert plan.capacity(plan.epoch(0)[0]).tokens == (63 * 256,)
