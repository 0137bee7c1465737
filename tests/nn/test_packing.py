"""Rows laid end to end: where they lie, and back again."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from weft.nn import Packing, length_mask

some_lengths = st.lists(st.integers(0, 9), max_size=8)


def test_the_picture_in_the_docstring() -> None:
    packing = Packing.of(torch.tensor([3, 5]))
    assert packing.offsets.tolist() == [0, 3, 8]
    assert packing.positions.tolist() == [0, 1, 2, 0, 1, 2, 3, 4]
    assert packing.rows.tolist() == [0, 0, 0, 1, 1, 1, 1, 1]
    assert (packing.longest, packing.count) == (5, 2)
    assert packing.offsets.dtype == torch.int32


@given(lengths=some_lengths)
def test_pad_and_unpad_are_inverse(lengths: list[int]) -> None:
    packing = Packing.of(torch.tensor(lengths, dtype=torch.int64))
    assert packing.lengths.tolist() == lengths
    x = torch.randn(sum(lengths), 2)
    padded = packing.pad(x)
    assert padded.shape == (len(lengths), max(lengths, default=0), 2)
    assert torch.equal(packing.unpad(padded), x)
    assert torch.equal(torch.cat([row[:length] for row, length in zip(padded, lengths, strict=True)] or [x]), x)
    real = length_mask(packing.lengths, packing.longest)
    assert not padded[~real].any()
    assert torch.equal(packing.pad(packing.unpad(padded)), padded)


@given(lengths=some_lengths, rows=st.integers(0, 3), tokens=st.integers(0, 40), longest=st.integers(9, 16))
def test_filled_packings_have_one_shape(lengths: list[int], rows: int, tokens: int, longest: int) -> None:
    """Whatever the lengths, as long as they fit."""
    spare = (sum(lengths) + tokens) // longest + 1
    room = {"rows": len(lengths) + rows + spare, "tokens": sum(lengths) + tokens, "longest": longest}
    packing = Packing.filled(torch.tensor(lengths, dtype=torch.int64), **room)
    empty = Packing.filled(torch.tensor([], dtype=torch.int64), **room)
    for name in ("offsets", "positions", "rows"):
        assert getattr(packing, name).shape == getattr(empty, name).shape
    assert (packing.longest, packing.count) == (empty.longest, empty.count) == (longest, room["rows"])
    assert packing.lengths[: len(lengths)].tolist() == lengths
    assert int(packing.lengths.max()) <= longest
    assert len(packing.rows) == room["tokens"]


def test_gradients_go_both_ways_and_past_padding() -> None:
    packing = Packing.of(torch.tensor([2, 0, 3]))
    x = torch.randn(5, 4, requires_grad=True)
    weights = torch.randn(3, 3, 4)
    (packing.pad(x) * weights).sum().backward()
    assert_close(x.grad, packing.unpad(weights))
    padded = torch.randn(3, 3, 4, requires_grad=True)
    (packing.unpad(padded) * x.detach()).sum().backward()
    assert_close(padded.grad, packing.pad(x.detach()))


def test_lengths_may_come_from_numpy_and_nothing_else_changes_on_the_way_to_a_device() -> None:
    packing = Packing.of(torch.tensor([2, 1]).numpy())
    moved = packing.to(torch.device("meta"))
    assert {part.device.type for part in (moved.offsets, moved.positions, moved.rows)} == {"meta"}
    assert (moved.longest, moved.count) == (packing.longest, packing.count) == (2, 2)
