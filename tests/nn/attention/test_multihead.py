"""Multi-head attention: its equation, the worked example, masks, sizes of its own, one step at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import SCORES, KeysValues, MultiHeadAttention, causal_mask, length_mask

B, T, S = 3, 5, 4
LENGTHS = torch.tensor([4, 0, 2])
SIZES: dict[str, dict[str, Any]] = {
    "self": {},
    "self, own sizes": {"head_size": 2, "value_head_size": 7, "output_size": 10},
    "cross": {"key_size": 9},
    "cross, own sizes": {"key_size": 9, "head_size": 2, "value_head_size": 7, "output_size": 10},
    "three inputs": {"key_size": 9, "value_size": 5},
    "three inputs, own sizes": {"key_size": 9, "value_size": 5, "head_size": 2, "value_head_size": 7},
}


def build(name: str, **options: Any) -> tuple[MultiHeadAttention, list[Tensor]]:
    """Attention of width 6 with 3 heads, and inputs for it."""
    torch.manual_seed(0)
    sizes = SIZES[name]
    inputs = [torch.randn(B, T, 6)]
    inputs += [torch.randn(B, S, sizes[key]) for key in ("key_size", "value_size") if key in sizes]
    attention = MultiHeadAttention(6, heads=3, **sizes, **options)
    with torch.no_grad():
        for parameter in attention.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return attention, [x.requires_grad_() for x in inputs]


def by_hand(
    attention: MultiHeadAttention,
    inputs: list[Tensor],
    may: Tensor | None = None,
    *,
    scale: float | None = None,
    hard: bool = False,
) -> Tensor:
    """The equation, head after head: a sum of what each head's own output map gives."""
    m, v = attention.head_size, attention.value_head_size
    x, y, z = inputs[0], inputs[min(1, len(inputs) - 1)], inputs[-1]
    if attention.joint is not None:
        w_q, w_k, w_v = attention.joint.weight.split([3 * m, 3 * m, 3 * v])
    elif attention.memory is not None:
        w_q, (w_k, w_v) = attention.query.weight, attention.memory.weight.split([3 * m, 3 * v])
    else:
        w_q, w_k, w_v = attention.query.weight, attention.key.weight, attention.value.weight
    total = torch.zeros(())
    for h in range(3):
        keys, values = slice(h * m, (h + 1) * m), slice(h * v, (h + 1) * v)
        scores = (x @ w_q[keys].T) @ (y @ w_k[keys].T).transpose(1, 2) * (scale or m**-0.5)
        weights = (scores if may is None else scores.masked_fill(~may, -torch.inf)).softmax(-1)
        weights = (weights == weights.amax(-1, keepdim=True)).float() if hard else weights
        total = total + weights @ (z @ w_v[values].T) @ attention.output.weight[:, values].T
    return total


@pytest.mark.covers("A4", "A5")
@pytest.mark.parametrize("name", SIZES)
def test_the_equation(name: str) -> None:
    attention, inputs = build(name)
    assert attention(*inputs).shape == (B, T, SIZES[name].get("output_size", 6))
    assert_close(attention(*inputs), by_hand(attention, inputs), atol=1e-5, rtol=1e-4)
    keys = inputs[-1].size(1)
    may = torch.rand(B, T, keys) > 0.4
    may[..., 0] = True
    assert_close(attention(*inputs, mask=may), by_hand(attention, inputs, may), atol=1e-5, rtol=1e-4)
    past = causal_mask(T, keys).clone()
    past[:, 0] = True
    assert_close(attention(*inputs, mask=past), by_hand(attention, inputs, past), atol=1e-5, rtol=1e-4)


@pytest.mark.covers("A2", "A10")
@pytest.mark.parametrize("name", ["self", "cross, own sizes"])
@pytest.mark.parametrize("hard", [False, True])
def test_the_equation_with_a_scale_and_hard_heads(name: str, hard: bool) -> None:
    attention, inputs = build(name, scale=1.3, hard=hard)
    expected = by_hand(attention, inputs, scale=1.3, hard=hard)
    assert_close(attention(*inputs), expected, atol=1e-5, rtol=1e-4)
    out, weights = attention(*inputs, weights=True)
    assert_close(out, expected, atol=1e-5, rtol=1e-4)
    assert_close(weights.sum(-1), torch.ones(B, 3, T))
    assert not hard or set(weights.unique().tolist()) == {0.0, 1.0}
    out.square().sum().backward()
    assert all(part.grad.any() for part in attention.parameters()), "the score learns too"


def test_named_scales_of_a_head() -> None:
    """Queries and keys of a head have one size, so sqrt_d and sqrt_max are the usual scale."""
    for scale, factor in {"none": 1.0, "sqrt_d": 2**-0.5, "sqrt_max": 2**-0.5, 0.3: 0.3}.items():
        attention, inputs = build("self", scale=scale)
        assert_close(attention(*inputs), by_hand(attention, inputs, scale=factor), atol=1e-5, rtol=1e-4)
        assert (attention.scale is None) == str(scale).startswith("sqrt")


@pytest.mark.covers("A9")
def test_the_worked_example_through_one_head() -> None:
    """Heads of 64 features of which three are used: 1/√64 is the scale of the example."""
    attention = MultiHeadAttention(3, 3, 3, heads=1, head_size=64, value_head_size=3)
    with torch.no_grad():
        for linear in (attention.query, attention.key):
            linear.weight.copy_(torch.eye(64, 3))
        for linear in (attention.value, attention.output):
            linear.weight.copy_(torch.eye(3))
    unit = torch.eye(3)
    value = torch.tensor([[1.0, 0, 0], [10, 0, 0], [100, 5, 0], [1000, 6, 0]])
    inputs = (10 * unit[None, [1]], 10 * unit[None, [0, 1, 2, 2]], value[None])
    found, weights = attention(*inputs, weights=True)
    expected = torch.tensor([3.7266e-06, 0.99999, 3.7266e-06, 3.7266e-06])
    assert_close(weights[0, 0, 0], expected, rtol=1e-4, atol=1e-10)
    assert_close(found[0, 0], weights[0, 0, 0] @ value)
    assert_close(attention(*inputs), found)


@pytest.mark.covers("A8")
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", SIZES)
def test_weights_asked_for_are_those_used(name: str, causal: bool) -> None:
    attention, inputs = build(name)
    keys = inputs[-1].size(1)
    mask = length_mask(LENGTHS, keys)[:, None]
    found, weights = attention(*inputs, mask=mask, causal=causal, weights=True)
    assert weights.shape == (B, 3, T, keys)
    assert_close(found, attention(*inputs, mask=mask, causal=causal))
    may = mask & causal_mask(T, keys) if causal else mask.expand(B, T, keys)
    assert_close(weights.sum(-1), may.any(-1).float()[:, None].expand(B, 3, T))
    assert not weights.masked_select(~may[:, None]).any()
    # Values that are all the same show what the weights sum to, through the maps.
    context = weights.sum(-1)[:, 0, :, None] * torch.ones(attention.output.in_features)
    same = attention.output(context)
    value = attention.joint if attention.joint is not None else attention.memory or attention.value
    with torch.no_grad():
        value.weight[-3 * attention.value_head_size :] = 0.0
        value.bias = nn.Parameter(torch.zeros(value.out_features))
        value.bias[-3 * attention.value_head_size :] = 1.0
    assert_close(attention(*inputs, mask=mask, causal=causal), same, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("score", ["scaled_dot", "additive"])
@pytest.mark.parametrize("name", ["self", "cross", "three inputs, own sizes"])
def test_rows_without_keys_give_zeros_and_finite_gradients(name: str, score: str, causal: bool, weights: bool) -> None:
    size = SIZES[name].get("head_size", 2)
    attention, inputs = build(name, score=SCORES[score](size, size))
    mask = length_mask(LENGTHS, inputs[-1].size(1))[:, None].repeat(1, T, 1)
    mask[0, 2] = False
    result = attention(*inputs, mask=mask, causal=causal, weights=weights)
    out = result[0] if weights else result
    assert not out[1].any()
    assert not out[0, 2].any()
    assert out[0, 3].any()
    out.square().sum().backward()
    grads = [part.grad for part in (*inputs, *attention.parameters())]
    assert all(grad.isfinite().all() and grad.any() for grad in grads)
    if len(inputs) > 1:
        assert not inputs[0].grad[1].any()


@pytest.mark.parametrize(
    "options", [{}, {"rotary": True}, {"bias": True}, {"value_head_size": 5}, {"scale": 2.0}, {"hard": True}], ids=str
)
def test_one_step_at_a_time_gives_the_numbers_of_the_whole(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    attention, x = MultiHeadAttention(6, heads=3, **options), torch.randn(B, T, 6)
    seen, outputs = attention.empty(B, x), []
    for t in range(T):
        out, seen = attention.step(x[:, t], seen)
        outputs.append(out)
    assert_close(torch.stack(outputs, 1), attention(x, causal=True), atol=1e-5, rtol=1e-4)
    assert seen.keys.shape == (B, 3, T, 2)


@pytest.mark.parametrize("name", ["cross", "cross, own sizes", "three inputs"])
def test_a_memory_prepared_once_is_looked_at_alike(name: str) -> None:
    attention, inputs = build(name)
    seen = attention.remember(*inputs[1:])
    assert isinstance(seen, KeysValues)
    mask = length_mask(LENGTHS, S)[:, None]
    out, weights = attention.look(inputs[0][:, 1:2], seen, mask=mask, weights=True)
    whole, used = attention(*inputs, mask=mask, weights=True)
    assert_close(out, whole[:, 1:2], atol=1e-5, rtol=1e-4)
    assert_close(weights, used[:, :, 1:2])
    assert attention.look(inputs[0], seen)[1] is None


def test_dropout_acts_in_training_only() -> None:
    attention, (x,) = build("self", dropout=0.5)
    assert not torch.allclose(attention(x), attention(x))
    attention.eval()
    assert_close(attention(x), attention(x))
    assert_close(attention(x), by_hand(attention, [x]), atol=1e-5, rtol=1e-4)


def test_each_map_starts_as_if_it_stood_alone() -> None:
    attention = MultiHeadAttention(64, heads=4, bias=True)
    bound = (6 / (64 + 64)) ** 0.5
    for part in attention.joint.weight.split(64):
        assert 0.9 * bound < part.abs().max() <= bound
    assert not attention.joint.bias.any()


@pytest.mark.parametrize(
    ("sizes", "shapes", "message"),
    [
        ({"key_size": 4}, [6], "key: attention to another input needs it"),
        ({}, [6, 6], "key: self-attention reads one input"),
        ({"key_size": 4}, [6, 4, 4], r"value: values are read from the keys' input \(give value_size\)"),
    ],
)
def test_inputs_that_it_was_not_built_for(sizes: dict[str, int], shapes: list[int], message: str) -> None:
    attention = MultiHeadAttention(6, heads=2, **sizes)
    with pytest.raises(ConfigError, match=message):
        attention(*(torch.randn(2, 3, size) for size in shapes))


def test_heads_that_do_not_divide_the_width() -> None:
    with pytest.raises(ConfigError, match=r"heads: 4 heads do not divide a width of 6 \(choose heads that divide it"):
        MultiHeadAttention(6, heads=4)
    assert MultiHeadAttention(6, heads=4, head_size=2)(torch.randn(1, 2, 6)).shape == (1, 2, 6)


def test_rotary_places_are_those_of_one_input() -> None:
    with pytest.raises(ConfigError, match="rotary: places of two inputs have no distance"):
        MultiHeadAttention(6, 4, heads=3, rotary=True)
