"""A block: its equation for each norm, what order means to it, where it starts, and how many parameters it has."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from weft.models import Translator, TranslatorConfig
from weft.nn import NORMS, POSITIONS, DecoderBlock, EncoderBlock, EncoderStack, FeedForward, length_mask

OPTIONS = {"heads": 2, "feedforward": 12}
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
Jitter = Callable[[Any], Any]


def join(norm: Any, x: Tensor, part: Callable[[Tensor], Tensor]) -> Tensor:
    """How each kind of norm joins a part, from its equation."""
    if hasattr(norm, "alpha"):
        return x + norm.alpha * part(x)
    weight, bias = norm.norm.weight, norm.norm.bias
    if type(norm).__name__ == "PreNorm":
        return x + part(F.layer_norm(x, (8,), weight, bias))
    return F.layer_norm(x + part(x), (8,), weight, bias)


@pytest.mark.covers("X1", "X2")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("norm", NORMS)
def test_encoder_block(norm: str, causal: bool, jitter: Jitter) -> None:
    block, x = jitter(EncoderBlock(8, norm=norm, **OPTIONS)), torch.randn(2, 5, 8)
    mask = length_mask(torch.tensor([5, 3]), 5)[:, None]
    expected = join(block.around_attention, x, lambda x: block.attention(x, mask=mask, causal=causal))
    expected = join(block.around_feedforward, expected, block.feedforward)
    assert_close(block(x, mask=mask, causal=causal), expected)


@pytest.mark.covers("A5", "X1")
@pytest.mark.parametrize("norm", NORMS)
def test_decoder_block(norm: str, jitter: Jitter) -> None:
    block = jitter(DecoderBlock(8, memory_size=7, norm=norm, **OPTIONS))
    x, memory = torch.randn(2, 5, 8), torch.randn(2, 4, 7)
    mask = length_mask(torch.tensor([4, 2]), 4)[:, None]
    expected = join(block.around_attention, x, lambda x: block.attention(x, causal=True))
    expected = join(block.around_cross, expected, lambda x: block.cross(x, memory, mask=mask))
    expected = join(block.around_feedforward, expected, block.feedforward)
    assert_close(block(x, memory, mask=mask), expected)


@pytest.mark.covers("X1")
@pytest.mark.parametrize("activation", ["relu", "gelu", "gelu_tanh", "silu", "swiglu"])
def test_feedforward(activation: str, jitter: Jitter) -> None:
    net, x = jitter(FeedForward(8, 12, activation=activation)), torch.randn(3, 8)
    inner = F.linear(x, net.inner.weight, net.inner.bias)
    gate, value = inner.chunk(2, dim=-1)
    bent = torch.tanh(math.sqrt(2 / math.pi) * (inner + 0.044715 * inner**3))
    units = {"relu": inner.clamp(min=0), "gelu": F.gelu(inner), "gelu_tanh": inner / 2 * (1 + bent)}
    units |= {"silu": inner * torch.sigmoid(inner), "swiglu": gate * torch.sigmoid(gate) * value}
    assert_close(net(x), F.linear(units[activation], net.outer.weight, net.outer.bias))


@pytest.mark.covers("X4")
@pytest.mark.parametrize("norm", NORMS)
def test_without_positions_order_means_nothing(norm: str, jitter: Jitter) -> None:
    block, x, order = jitter(EncoderBlock(8, norm=norm, **OPTIONS)), torch.randn(2, 5, 8), torch.randperm(5)
    assert_close(block(x[:, order]), block(x)[:, order], **CLOSE)
    assert not torch.allclose(block(x[:, order], causal=True), block(x, causal=True)[:, order], atol=1e-2)


@pytest.mark.covers("X4")
@pytest.mark.parametrize("kind", [kind for kind in POSITIONS if kind != "none"])
def test_with_positions_it_does(kind: str, jitter: Jitter) -> None:
    positions = jitter(POSITIONS[kind](8, 5))
    block = jitter(EncoderBlock(positions.output_size, heads=1, feedforward=12, rotary=kind == "rotary"))
    x, places, order = torch.randn(2, 5, 8), torch.arange(5), torch.tensor([3, 0, 4, 1, 2])
    turned, straight = block(positions(x[:, order], places)), block(positions(x, places))
    assert not torch.allclose(turned, straight[:, order], atol=1e-2)


@pytest.mark.covers("X2")
@pytest.mark.parametrize("kind", [EncoderBlock, DecoderBlock])
def test_a_new_rezero_block_is_the_identity_and_wakes_up(kind: type[nn.Module]) -> None:
    block, x = kind(8, norm="rezero", **OPTIONS), torch.randn(2, 5, 8)
    inputs = (x, torch.randn(2, 4, 8)) if kind is DecoderBlock else (x,)
    assert torch.equal(block(*inputs), x)
    (block(*inputs) * torch.randn_like(x)).sum().backward()
    alphas = {name: weight for name, weight in block.named_parameters() if name.endswith("alpha")}
    assert len(alphas) == len(inputs) + 1
    assert all(alpha.grad != 0 for alpha in alphas.values())


def test_a_deep_pre_norm_stack_adds_no_more_than_a_shallow_one() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 6, 32)
    for layers in (1, 16):
        stack = EncoderStack(32, layers=layers, norm="pre", heads=4, feedforward=64)
        stream = x
        for block in stack.blocks:
            stream = block(stream)
        assert stream.std() < 2


@pytest.mark.parametrize("norm", NORMS)
def test_dropout_is_for_training(norm: str, jitter: Jitter) -> None:
    block, x = jitter(EncoderBlock(8, norm=norm, dropout=0.5, attention_dropout=0.5, **OPTIONS)), torch.randn(2, 5, 8)
    assert not torch.allclose(block(x), block(x))
    assert torch.equal(block.eval()(x), block(x))


def count(module: nn.Module) -> int:
    return sum(weight.numel() for weight in module.parameters())


@pytest.mark.covers("X5")
def test_counts_of_the_texts() -> None:
    with torch.device("meta"):
        assert count(EncoderBlock(512, heads=8, feedforward=2048)) == 3_150_336
        assert count(DecoderBlock(512, heads=8, feedforward=2048)) == 4_199_936
        side = {"kind": "transformer", "width": 512, "heads": 8, "layers": 6, "feedforward": 2048, "norm": "post"}
        config = TranslatorConfig.model_validate({"encoder": side, "decoder": side})
        assert count(Translator(config, 37_000, 37_000, shared=True)) == 63_082_632
