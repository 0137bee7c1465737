"""The recorder of attention: its weights times the values are what every fast path computes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.nn import AttentionPooling, DecoderStack, EncoderStack, MultiHeadAttention, NonLocal, Packing, attend
from weft.nn.attention import SCORES, AttentionCall, record_attention
from weft.nn.attention.recording import recording
from weft.nn.native.packed_linear import PackedWeights
from weft.nn.transformer import stack_cpu

LENGTHS = torch.tensor([7, 4])
WIDTH, HEADS, LAYERS = 32, 4, 3
NORMS = ["post", "pre", "rezero"]


@pytest.fixture(autouse=True)
def _no_gradients() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def weighted_values(call: AttentionCall, row: int) -> Tensor:
    """The weights of all heads times their values: (H, Tq, v)."""
    return torch.stack([call.weights(head=head, row=row) @ call.value[row, head] for head in range(call.heads)])


def assert_explained(call: AttentionCall, lengths: Tensor = LENGTHS) -> None:
    """The weights times the values are the context of each row's real positions, and sum to one."""
    for row, length in enumerate(lengths.tolist()):
        assert_close(weighted_values(call, row)[:, :length], call.context[row, :, :length], atol=1e-5, rtol=1e-5)
        sums = call.weights(head=0, row=row)[:length].sum(-1)
        assert_close(sums, torch.ones_like(sums))


def encoder(norm: str = "post", **options: object) -> EncoderStack:
    return EncoderStack(WIDTH, layers=LAYERS, norm=norm, heads=HEADS, feedforward=64, **options).eval()


@pytest.mark.covers("I3")
@pytest.mark.parametrize("norm", NORMS)
def test_every_layer_of_a_stack_in_c(norm: str, a_compiler: None) -> None:
    stack, x = encoder(norm), torch.randn(2, 7, WIDTH)
    assert stack_cpu.serves(stack, x)
    fast = stack(x, LENGTHS)
    with record_attention() as calls:
        plain = stack(x, LENGTHS)
        assert not stack_cpu.serves(stack, x)
    assert [call.module for call in calls] == [block.attention for block in stack.blocks]
    for call in calls:
        assert_explained(call)
    for row, length in enumerate(LENGTHS.tolist()):
        assert_close(fast[row, :length], plain[row, :length], atol=1e-5, rtol=1e-5)


@pytest.mark.covers("I3")
@pytest.mark.parametrize("layer", range(LAYERS))
def test_a_layer_made_from_its_weights_is_the_layer_in_c(layer: int, a_compiler: None) -> None:
    stack, x = encoder(), torch.randn(1, 7, WIDTH)
    below, block = stack.blocks[:layer], stack.blocks[layer]
    with record_attention() as calls:
        stack(x)
    heads = weighted_values(calls[layer], 0)[None].transpose(1, 2).flatten(2)
    for lower in below:
        x = lower(x)
    attended = block.around_attention(x, lambda _: block.attention.output(heads))
    stack.blocks, first = stack.blocks[layer : layer + 1], x
    assert_close(block.around_feedforward(attended, block.feedforward), stack(first), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("options", [{}, {"rotary": True}, {"attention_hard": True}, {"attention_scale": 0.3}])
def test_causal_stacks(options: dict[str, object]) -> None:
    stack, x = encoder(**options), torch.randn(2, 7, WIDTH)
    fast = stack(x, causal=True)
    with record_attention() as calls:
        assert torch.equal(stack(x, causal=True), fast)
    assert len(calls) == LAYERS
    for call in calls:
        assert_explained(call, torch.tensor([7, 7]))
        assert not call.weights(head=1).triu(1).any()


def test_packed_rows() -> None:
    stack, x, packing = encoder(), torch.randn(11, WIDTH), Packing.of(LENGTHS)
    fast = stack(x, packing)
    with record_attention() as calls:
        assert_close(stack(x, packing), fast)
    for call in calls:
        assert_explained(call)
    mapped = stack.blocks[0].attention.output(packing.unpad(calls[0].context.transpose(1, 2)).flatten(-2))
    assert_close(mapped, stack.blocks[0].attention(x, packing=packing), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("norm", NORMS)
def test_steps_with_a_cache_in_c(norm: str, a_compiler: None) -> None:
    stack = DecoderStack(WIDTH, layers=2, memory_size=WIDTH, norm=norm, heads=HEADS, feedforward=64).eval()
    memory, x = torch.randn(2, 7, WIDTH), torch.randn(4, 2, WIDTH)

    def write() -> list[Tensor]:
        state, found = stack.reserve(memory, LENGTHS, slot_width=1, capacity=8), []
        for now in x:
            hidden, state, _ = stack.step(now, state, attention=False)
            found.append(hidden)
        return found

    with PackedWeights():
        fast = write()  # whole steps in C
    kernels = write()  # attention alone in C
    with record_attention() as calls:
        plain = write()
    assert_close(fast, plain, atol=1e-5, rtol=1e-5)
    assert_close(kernels, plain, atol=1e-5, rtol=1e-5)
    assert [call.attends_to for call in calls] == ["self", "memory"] * 2 * 4
    for call in calls:
        assert_explained(call, torch.tensor([1, 1]))
    assert [call.key.size(2) for call in calls[::4]] == [1, 2, 3, 4]
    assert not calls[1].weights(head=0, row=1)[:, 4:].any()  # the padding of the second source


@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
def test_a_module_alone(score: str) -> None:
    built = score if score == "scaled_dot" else SCORES[score](8, 8)
    attention = MultiHeadAttention(WIDTH, heads=4, score=built).eval()
    x = torch.randn(2, 7, WIDTH)
    fast = attention(x)
    with record_attention() as calls:
        assert_close(attention(x), fast)
    assert_explained(calls[0], torch.tensor([7, 7]))
    weights = attention(x, weights=True)[1]
    assert_close(calls[0].weights(head=2, row=1), weights[1, 2])
    assert_close(calls[0].weights(head=2, row=1, every=3), weights[1, 2, ::3])


def test_pooling_and_pictures_announce_themselves() -> None:
    pooling, block = AttentionPooling(6, queries=2).eval(), NonLocal(4)
    with record_attention() as calls:
        pooled, weights = pooling.attend(torch.randn(2, 7, 6), LENGTHS)
        block(torch.randn(1, 4, 3, 3))
    assert [call.attends_to for call in calls] == ["pooling", "self"]
    assert_close(calls[0].weights(head=0, row=1), weights[1])
    assert_close(weighted_values(calls[0], 0).flatten(), pooled[0])
    assert calls[1].weights(head=0).shape == (9, 9)


def test_a_call_without_a_module_and_without_heads() -> None:
    q, k, v = torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 2)
    with record_attention() as calls:
        context = attend(q, k, v)
    assert calls[0].module is None
    assert_close(calls[0].weights(head=0) @ v, context)


def test_nothing_is_left_behind_and_other_threads_are_not_recorded() -> None:
    attention, x, seen = MultiHeadAttention(8, heads=2), torch.randn(1, 3, 8), list[bool]()

    def record_and_fail() -> None:
        with record_attention() as calls:
            found.append(calls)
            attention(x)
            thread = threading.Thread(target=lambda: (attention(x), seen.append(recording())))
            thread.start()
            thread.join()
            raise RuntimeError

    found: list[list[AttentionCall]] = []
    with pytest.raises(RuntimeError):
        record_and_fail()
    assert not recording()
    assert seen == [False]
    attention(x)
    assert [len(calls) for calls in found] == [1]


def test_compiled_code_has_no_break_and_a_recorded_pass_is_plain() -> None:
    stack, x = encoder(), torch.randn(1, 5, WIDTH)
    stack.run = lambda *inputs, **options: pytest.fail("compiled blocks ran")
    with record_attention() as calls:
        stack(x, causal=True)
    assert len(calls) == LAYERS
    attention, graphs = stack.blocks[0].attention, list[object]()
    compiled = torch.compile(attention, backend=lambda graph, _: graphs.append(graph) or graph.forward, fullgraph=True)
    expected = attention(x)
    with record_attention() as calls:
        assert_close(compiled(x), expected)
    assert not calls
    assert_close(compiled(x), expected)
    assert len(graphs) == 1
