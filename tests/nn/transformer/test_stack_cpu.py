"""A whole stack in C against the same stack in torch, position after position, as a beam moves its rows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.testing import assert_close

from weft.nn import DecoderStack, EncoderStack
from weft.nn.native.packed_linear import PackedWeights, packed_weights
from weft.nn.slots import keep, reorder
from weft.nn.transformer import stack_cpu

pytestmark = pytest.mark.usefixtures("vectors")
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
VARIANTS: list[dict[str, Any]] = [
    {"norm": "post"},
    {"norm": "pre", "activation": "gelu"},
    {"norm": "rezero"},
    {"norm": "post", "attention_bias": True, "activation": "silu"},
    {"norm": "pre", "attention_bias": True, "activation": "gelu_tanh", "norm_epsilon": 0.5},
]
WIDTH, UNITS = 64, 96


def build(kind: type[Any], options: dict[str, Any]) -> Any:
    if stack_cpu.LIBRARY.load() is None:
        pytest.skip("no C compiler")
    torch.manual_seed(0)
    more = {"memory_size": 40} if kind is DecoderStack else {}
    made = kind(WIDTH, layers=2, heads=4, feedforward=UNITS, **more, **options).eval()
    for parameter in made.parameters():
        torch.nn.init.normal_(parameter, mean=float(parameter.dim() == 1), std=0.3)
    return made


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
@torch.no_grad()
def test_a_decoder_with_a_source(options: dict[str, Any], threads: int) -> None:
    slots, slot_width, capacity = 5, 3, 7
    decoder = build(DecoderStack, options)
    memory, lengths = torch.randn(slots, 6, 40), torch.tensor([6, 1, 4, 0, 3])
    states = [decoder.reserve(memory, lengths, slot_width=slot_width, capacity=capacity) for _ in range(2)]
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    for number in range(capacity - 1):
        x = torch.randn(slots * slot_width, WIDTH)
        plain, states[0], _ = decoder.step(x, states[0], attention=True)
        with PackedWeights():
            assert stack_cpu.steps(decoder, x)
            found, states[1], _ = decoder.step(x, states[1], attention=False)
        assert_close(found, plain, **CLOSE)
        rows = torch.arange(slots * slot_width).view(slots, slot_width)[:, [1, 1, number % slot_width]].flatten()
        states = [reorder(state, rows) for state in states]
        if number == 3:
            slots = 3
            states = [keep(state, torch.tensor([0, 2, 4]), slot_width) for state in states]
    torch.set_num_threads(before)


@pytest.mark.parametrize("positions", [1, 7, 70])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_an_encoder(options: dict[str, Any], positions: int) -> None:
    encoder, x = build(EncoderStack, options), torch.randn(5, positions, WIDTH)
    lengths = torch.tensor([positions, 1, (positions + 1) // 2, 0, positions])
    expected = [encoder(x, lengths).detach(), encoder(x).detach()]  # where something may be learned torch computes
    with torch.no_grad():
        assert stack_cpu.serves(encoder, x)
        found = [encoder(x, lengths), encoder(x)]
    real = torch.arange(positions) < lengths[:, None]
    close = {**CLOSE, "atol": max(1e-4, 1e-5 * float(expected[1].abs().max()))}  # sums of large numbers may be small
    assert_close(found[0][real], expected[0][real], **close)
    assert_close(found[1], expected[1], **close)


@torch.no_grad()
def test_an_encoder_reads_every_row_alone() -> None:
    """To the last bit, whatever stands beside it and however far it is padded."""
    encoder, x = build(EncoderStack, {"norm": "post"}), torch.randn(9, 12, WIDTH)
    lengths = torch.tensor([12, 3, 1, 7, 12, 2, 5, 11, 4])
    together = encoder(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = encoder(x[row : row + 1, :length], lengths[row : row + 1])
        assert torch.equal(together[row, :length], alone[0])


@torch.no_grad()
def test_packed_weights_are_released_after_the_encoder() -> None:
    encoder = build(EncoderStack, {})
    encoder(torch.randn(2, 3, WIDTH))
    assert packed_weights() is None


def test_what_learns_is_left_to_torch() -> None:
    encoder = build(EncoderStack, {"dropout": 0.5})
    encoder(torch.randn(2, 3, WIDTH)).sum().backward()
    assert all(parameter.grad is not None for parameter in encoder.parameters())
    with torch.no_grad():
        dropped = encoder.train()(torch.ones(1, 50, WIDTH))
    assert dropped.std(1).max() > 0.1, "the places of a row differ by what is dropped"


@pytest.mark.parametrize("options", VARIANTS, ids=str)
@torch.no_grad()
def test_a_language_model(options: dict[str, Any]) -> None:
    model, x = build(EncoderStack, options), torch.randn(4, 6, WIDTH)
    state = model.reserve(4, x, slot_width=1, capacity=6)
    whole = model(x, causal=True)
    with PackedWeights():
        for t in range(6):
            assert stack_cpu.steps(model, x[:, t])
            out, state = model.step(x[:, t], state)
            assert_close(out, whole[:, t], **CLOSE)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("slot_width", [1, 3])
@pytest.mark.parametrize("options", VARIANTS, ids=str)
@pytest.mark.parametrize("kind", [EncoderStack, DecoderStack])
@torch.no_grad()
def test_texts_that_are_read_at_once(kind: type[Any], options: dict[str, Any], slot_width: int, threads: int) -> None:
    """In C, to the last bit, as if they had been read step by step; in torch nearly so."""
    model, capacity, lengths = build(kind, options), 75, torch.tensor([70, 1, 4, 23])
    x, slots = torch.randn(4, 70, WIDTH), torch.tensor([2, 0, 5, 3])
    memory, real = torch.randn(6, 5, 40), torch.tensor([5, 1, 4, 2, 3, 5])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    with PackedWeights():
        states = [
            model.reserve(6 * slot_width, memory, slot_width=slot_width, capacity=capacity)
            if kind is EncoderStack
            else model.reserve(memory, real, slot_width=slot_width, capacity=capacity)
            for _ in range(3)
        ]
        assert stack_cpu.steps(model, x)
        model.prefill(x, lengths, states[0], slots=slots, slot_width=slot_width)
        step = torch.zeros(6, 70, WIDTH)
        step[slots] = x
        for t in range(70):
            after = model.step(step[:, t].repeat_interleave(slot_width, 0), states[1], **asked(kind))[1]
            states[1] = after
    model.prefill(x, lengths, states[2], slots=slots, slot_width=slot_width)
    torch.set_num_threads(before)
    read, stepped, plain = (state if kind is EncoderStack else state.cache for state in states)
    for slot, length in zip(slots.tolist(), lengths.tolist(), strict=True):
        first, rows = slot * slot_width, slice(slot * slot_width, (slot + 1) * slot_width)
        assert read.length[rows].tolist() == plain.length[rows].tolist() == [length] * slot_width
        assert read.origin is None or (read.origin[rows, :length] == first).all()
        for store, step_by_step, other in zip(
            *((*past.keys, *past.values) for past in (read, stepped, plain)), strict=True
        ):
            assert torch.equal(store[first, :, :length], step_by_step[first, :, :length])
            assert_close(store[first, :, :length], other[first, :, :length], **CLOSE)


def asked(kind: type[Any]) -> dict[str, bool]:
    return {} if kind is EncoderStack else {"attention": False}


@pytest.mark.parametrize("options", [{"rotary": True}, {"activation": "swiglu"}], ids=str)
def test_what_the_c_does_not_know_is_left_to_torch(options: dict[str, Any]) -> None:
    assert stack_cpu.layout_of(build(EncoderStack, options)) is None
    uneven = EncoderStack(20, layers=1, heads=2, feedforward=64)
    assert stack_cpu.layout_of(uneven) is None, "no whole panels"
