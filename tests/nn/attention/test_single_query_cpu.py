"""Attention of one query per row in C, against plain torch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.nn.attention import attend, single_query_cpu
from weft.nn.attention.kv_cache import LayerCache, attend_cached

CLOSE = {"atol": 1e-5, "rtol": 1e-4}


@pytest.fixture(autouse=True)
def _outside_of_training(vectors: str) -> Iterator[None]:
    if single_query_cpu.LIBRARY.load() is None:
        pytest.skip("no C compiler")
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def plainly(q: Tensor, k: Tensor, v: Tensor, cache: LayerCache) -> Tensor:
    """The plain version, which computes double precision."""
    store = LayerCache(cache.keys.double(), cache.values.double(), cache.origin, cache.length)
    return attend_cached(q.double(), k.double(), v.double(), store).float()


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize("sizes", [(16, 16), (5, 3), (24, 40)])
@pytest.mark.usefixtures("threads")
def test_attention_to_the_cache(moved: bool, sizes: tuple[int, int]) -> None:
    rows, capacity, heads, (m, v_size) = 12, 9, 2, sizes
    keys, values = torch.randn(rows, heads, capacity, m), torch.randn(rows, heads, capacity, v_size)
    joint = torch.randn(rows, heads * (2 * m + v_size)).split([heads * m, heads * m, heads * v_size], dim=1)
    q, k, v = (part.unflatten(1, (heads, -1)) for part in joint)
    length = torch.tensor([0, 3, 8, 5]).repeat_interleave(3)  # rows of a slot are equally long
    own = torch.arange(rows)
    origin = (own // 3 * 3)[:, None] + torch.randint(0, 3, (rows, capacity)) if moved else None
    if origin is not None:
        origin.scatter_(1, length[:, None], own[:, None])
    expected = plainly(q, k, v, LayerCache(keys.clone(), values.clone(), origin, length))
    found = single_query_cpu.attend_cached(q, k, v, keys, values, origin, length, m**-0.5)
    assert_close(found, expected, **CLOSE)
    assert_close(keys[own, :, length], k)
    assert_close(values[own, :, length], v)


def test_what_was_never_written_is_never_read() -> None:
    keys, values = (torch.full((3, 2, 6, 8), torch.nan) for _ in range(2))
    q, k, v = (torch.randn(3, 2, 8) for _ in range(3))
    keys[:, :, :2], values[:, :, :2] = torch.randn(2, 3, 2, 2, 8)
    length = torch.tensor([2, 0, 1])
    expected = plainly(q, k, v, LayerCache(keys.clone(), values.clone(), None, length))
    assert expected.isfinite().all()
    assert_close(single_query_cpu.attend_cached(q, k, v, keys, values, None, length, 8**-0.5), expected, **CLOSE)


@pytest.mark.parametrize("slot_width", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.usefixtures("threads")
def test_attention_to_what_rows_share(slot_width: int, masked: bool) -> None:
    slots, heads, m, length = 5, 2, 20, 7
    q = torch.randn(slots * slot_width, heads * m + 3)[:, : heads * m].view(slots, slot_width, heads, m)
    source = torch.randn(slots, length, 2 * heads * m)
    keys, values = (part.view(slots, length, heads, m).transpose(1, 2) for part in source.chunk(2, dim=-1))
    mask = torch.arange(length) < torch.tensor([7, 3, 1, 0, 5])[:, None] if masked else None
    found = single_query_cpu.attend_shared(q, keys, values, mask, m**-0.5)
    wide = None if mask is None else mask[:, None, None]
    assert_close(found, attend(q.transpose(1, 2), keys, values, mask=wide).transpose(1, 2), **CLOSE)


@pytest.mark.parametrize("vectors", ["widest"], indirect=True)
def test_padding_changes_no_bit() -> None:
    """A source is as long as the longest of its batch."""
    q, source = torch.randn(1, 3, 2, 20), torch.randn(1, 2, 2, 40, 20)
    mask = torch.ones(1, 40, dtype=torch.bool)
    mask[:, 5:] = False
    alone = single_query_cpu.attend_shared(q, source[:, 0, :, :5], source[:, 1, :, :5], mask[:, :5], 0.2)
    for length in range(6, 41):
        keys, values = source[:, 0, :, :length], source[:, 1, :, :length]
        assert torch.equal(single_query_cpu.attend_shared(q, keys, values, mask[:, :length], 0.2), alone)


@pytest.mark.parametrize("size", [8, 12, 20, 64])
def test_neighbours_change_no_bit(size: int) -> None:
    """Rows that read one source do so several at a time."""
    q, (keys, values) = torch.randn(1, 9, 2, size), torch.randn(2, 1, 2, 13, size)
    together = single_query_cpu.attend_shared(q, keys, values, None, 0.2)
    for first in range(9):
        for end in range(first + 1, 10):
            alone = single_query_cpu.attend_shared(q[:, first:end], keys, values, None, 0.2)
            assert torch.equal(alone, together[:, first:end])
