"""Packed rows: the numbers and gradients of padded ones, whatever their lengths."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import MultiHeadAttention, Packing, attend, length_mask
from weft.nn.attention import attend_packed
from weft.nn.attention.short import block, is_short

LENGTHS = Packing.of(torch.tensor([3, 0, 5, 1, 2]))
OTHERS = Packing.of(torch.tensor([2, 4, 0, 1, 6]))
CLOSE = {"atol": 1e-5, "rtol": 1e-4}


def mask_of(packing: Packing) -> Tensor:
    return length_mask(packing.lengths, packing.longest)[:, None]


def draw(packing: Packing, *shape: int) -> Tensor:
    return torch.randn(len(packing.rows), *shape)


@pytest.mark.parametrize(("keys", "causal"), [(LENGTHS, False), (LENGTHS, True), (OTHERS, False)])
def test_each_row_gives_what_it_gives_alone(keys: Packing, causal: bool) -> None:
    torch.manual_seed(0)
    query, key, value = draw(LENGTHS, 2, 4), draw(keys, 2, 4), draw(keys, 2, 3)
    found = attend_packed(query, key, value, LENGTHS, keys, causal=causal, scale=0.5)
    for row in range(LENGTHS.count):
        mine, its = LENGTHS.rows == row, keys.rows == row
        q, k, v = (x.transpose(0, 1) for x in (query[mine], key[its], value[its]))
        alone = attend(q, k, v, causal=causal, scale=0.5) if its.any() else torch.zeros(2, q.size(1), 3)
        assert_close(found[mine], alone.transpose(0, 1))


PLAIN: list[dict[str, Any]] = [{}, {"bias": True}, {"head_size": 2, "value_head_size": 5}]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("options", [*PLAIN, {"rotary": True}], ids=str)
def test_self_attention(options: dict[str, Any], causal: bool) -> None:
    torch.manual_seed(0)
    attention, x = MultiHeadAttention(8, heads=2, **options), draw(LENGTHS, 8)

    def padded(x: Tensor) -> Tensor:
        return LENGTHS.unpad(attention(LENGTHS.pad(x), mask=mask_of(LENGTHS), causal=causal))

    assert_same(attention, lambda x: attention(x, packing=LENGTHS, causal=causal), padded, x)


@pytest.mark.parametrize("options", [*PLAIN, {"value_size": 5}], ids=str)
def test_cross_attention(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    attention = MultiHeadAttention(8, 7, heads=2, **options)
    inputs = [draw(LENGTHS, 8), draw(OTHERS, 7), *([draw(OTHERS, 5)] if "value_size" in options else [])]

    def packed(x: Tensor, *others: Tensor) -> Tensor:
        return attention(x, *others, packing=LENGTHS, key_packing=OTHERS)

    def padded(x: Tensor, *others: Tensor) -> Tensor:
        return LENGTHS.unpad(attention(LENGTHS.pad(x), *map(OTHERS.pad, others), mask=mask_of(OTHERS)))

    assert_same(attention, packed, padded, *inputs)


def assert_same(attention: MultiHeadAttention, packed: Any, padded: Any, *inputs: Tensor) -> None:
    found = []
    for way in (packed, padded):
        attention.zero_grad()
        given = [x.clone().requires_grad_() for x in inputs]
        out = way(*given)
        (out * torch.arange(1, out.numel() + 1).view_as(out).cos()).sum().backward()
        found.append([out, *(x.grad for x in given), *(weight.grad for weight in attention.parameters())])
    assert_close(found[0], found[1], **CLOSE)
    assert found[0][0].any()


def test_a_batch_of_nothing() -> None:
    nothing = Packing.of(torch.tensor([0, 0]))
    attention = MultiHeadAttention(8, heads=2)
    assert attention(torch.empty(0, 8), packing=nothing).shape == (0, 8)


def test_what_packed_rows_do_not_have() -> None:
    attention, x = MultiHeadAttention(8, heads=2), draw(LENGTHS, 8)
    with pytest.raises(ConfigError, match=r"packed rows have neither weights .*\(pad them\)"):
        attention(x, packing=LENGTHS, weights=True)
    with pytest.raises(ConfigError, match="packed rows have neither"):
        MultiHeadAttention(8, heads=2, score="dot")(x, packing=LENGTHS)


def test_the_short_kernels_are_for_a_gpu_in_half_precision() -> None:
    assert not is_short(draw(LENGTHS, 16), LENGTHS, LENGTHS, 16)
    assert [block(longest) for longest in (0, 1, 16, 17, 64, 65, 128)] == [16, 16, 16, 32, 64, 128, 128]
