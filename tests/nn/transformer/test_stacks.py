"""Stacks: one parallel pass gives the numbers of one position at a time, packed rows those of padded ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.nn import NORMS, DecoderStack, EncoderStack, Packing, length_mask, select_rows
from weft.nn.transformer import padding_mask

Jitter = Callable[[Any], Any]
CLOSE = {"atol": 1e-5, "rtol": 1e-4}
SOURCE, TARGET = torch.tensor([4, 2, 3]), torch.tensor([5, 6, 1])
VARIANTS: list[dict[str, Any]] = [
    *({"norm": norm} for norm in NORMS),
    {"norm": "pre", "rotary": True},
    {"norm": "pre", "activation": "swiglu"},
    {"norm": "post", "attention_bias": True, "activation": "gelu"},
    {"norm": "pre", "attention_scale": 0.9},
    {"norm": "post", "attention_hard": True},
]


PACKED = [options for options in VARIANTS if "attention_hard" not in options]


def encoder(jitter: Jitter, options: dict[str, Any]) -> EncoderStack:
    stack: EncoderStack = jitter(EncoderStack(8, layers=2, heads=2, feedforward=12, **options))
    return stack


def decoder(jitter: Jitter, options: dict[str, Any]) -> DecoderStack:
    stack: DecoderStack = jitter(DecoderStack(8, layers=2, heads=2, feedforward=12, memory_size=7, **options))
    return stack


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_an_encoder_stack_step_by_step(options: dict[str, Any], jitter: Jitter) -> None:
    stack, x = encoder(jitter, options), torch.randn(3, 6, 8)
    state, outputs = stack.start(3, x), []
    for t in range(6):
        out, state = stack.step(x[:, t], state)
        outputs.append(out)
    assert_close(torch.stack(outputs, 1), stack(x, causal=True), **CLOSE)


@pytest.mark.covers("X6")
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_a_decoder_stack_step_by_step(options: dict[str, Any], jitter: Jitter) -> None:
    stack, x, memory = decoder(jitter, options), torch.randn(3, 6, 8), torch.randn(3, 4, 7)
    whole = stack(x, memory, SOURCE)
    state = stack.start(memory, SOURCE, torch.arange(3))
    for t in range(6):
        out, state, looked = stack.step(x[:, t], state)
        assert_close(out, whole[:, t], **CLOSE)
        assert_close(looked.sum(-1), torch.ones(3))
        assert not looked[~length_mask(SOURCE, 4)].any()


def test_hypotheses_are_moved_with_what_they_have_seen(jitter: Jitter) -> None:
    """As a beam does: the second step of each row continues another one's first."""
    stack, x, memory = decoder(jitter, {"norm": "pre"}), torch.randn(3, 2, 8), torch.randn(2, 4, 7)
    state = stack.start(memory, SOURCE[:2], torch.tensor([0, 0, 1]))
    _, state, _ = stack.step(x[:, 0], state)
    order = torch.tensor([1, 0, 2])
    out, _, _ = stack.step(x[:, 1], select_rows(state, order))
    mixed = torch.stack((x[order, 0], x[:, 1]), dim=1)
    rows = torch.tensor([0, 0, 1])
    assert_close(out, stack(mixed, memory[rows], SOURCE[rows])[:, 1], **CLOSE)


def measure(stack: Any, way: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    stack.zero_grad()
    given = [x.clone().requires_grad_() for x in inputs]
    out = way(*given)
    (out * torch.arange(1, out.numel() + 1).view_as(out).cos()).sum().backward()
    return [out, *(x.grad for x in given), *(weight.grad for weight in stack.parameters())]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("options", PACKED, ids=str)
def test_a_packed_encoder_stack(options: dict[str, Any], causal: bool, jitter: Jitter) -> None:
    stack, packing = encoder(jitter, options), Packing.of(torch.tensor([4, 0, 2, 5]))
    x = torch.randn(11, 8)
    packed = measure(stack, lambda x: stack(x, packing, causal=causal), x)
    padded = measure(stack, lambda x: packing.unpad(stack(packing.pad(x), packing.lengths, causal=causal)), x)
    assert_close(packed, padded, **CLOSE)


@pytest.mark.parametrize("options", PACKED, ids=str)
def test_a_packed_decoder_stack(options: dict[str, Any], jitter: Jitter) -> None:
    stack = decoder(jitter, options)
    source, target = Packing.of(torch.tensor([4, 0, 2, 1])), Packing.of(torch.tensor([5, 2, 0, 3]))
    x, memory = torch.randn(10, 8), torch.randn(7, 7)

    def padded(x: Tensor, memory: Tensor) -> Tensor:
        return target.unpad(stack(target.pad(x), source.pad(memory), source.lengths))

    packed = measure(stack, lambda x, memory: stack(x, memory, source, target), x, memory)
    assert_close(packed, measure(stack, padded, x, memory), **CLOSE)


@pytest.mark.parametrize("norm", NORMS)
def test_padding_changes_no_row(norm: str, jitter: Jitter) -> None:
    stack, x = encoder(jitter, {"norm": norm}), torch.randn(3, 6, 8)
    for causal in (False, True):
        together = stack(x, TARGET, causal=causal)
        for row, length in enumerate(TARGET.tolist()):
            assert_close(together[row, :length], stack(x[row : row + 1, :length], causal=causal)[0], **CLOSE)


def test_only_a_pre_norm_stack_ends_with_a_norm() -> None:
    ends = {norm: type(EncoderStack(8, layers=1, heads=2, feedforward=12, norm=norm).final).__name__ for norm in NORMS}
    assert ends == {"post": "Identity", "pre": "LayerNorm", "rezero": "Identity"}


def test_a_mask_is_made_only_where_there_is_padding() -> None:
    x = torch.randn(2, 3, 8)
    assert padding_mask(None, x) is None
    assert padding_mask(torch.tensor([3, 3]), x) is None
    assert padding_mask(torch.tensor([3, 1]), x).tolist() == [[[True] * 3], [[True, False, False]]]
