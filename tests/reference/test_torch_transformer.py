"""The attention and transformer layers of torch and ours: the same outputs and gradients, weights carried both ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import DecoderBlock, EncoderBlock, MultiHeadAttention, causal_mask, length_mask
from weft.nn.attention import Additive
from weft.nn.transformer import FeedForward

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
WIDTH, HEADS = 12, 3
LENGTHS, OTHER_LENGTHS = torch.tensor([6, 2, 4]), torch.tensor([3, 5, 1])
ACTIVATIONS = ["relu", "gelu", nn.functional.silu, nn.GELU("tanh")]
MASKS = ["none", "padding", "causal", "both"]


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(3)


def jitter(module: nn.Module) -> None:
    """Biases and norms start at zeros and ones, where a mix-up would not be seen."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))


def gradients(output: Tensor, *inputs: Tensor) -> list[Tensor]:
    weights = torch.arange(1, output.numel() + 1, dtype=output.dtype).view_as(output).cos()
    return [output, *torch.autograd.grad((output * weights).sum(), inputs)]


def ordered(module: nn.MultiheadAttention, *inputs: Tensor) -> list[Tensor]:
    return [x if module.batch_first else x.transpose(0, 1) for x in inputs]


def their_masks(mask: str, queries: int, lengths: Tensor) -> dict[str, Any]:
    """In torch's masks True hides."""
    keys = int(lengths.max())
    padding = ~length_mask(lengths, keys) if mask in ("padding", "both") else None
    causal = ~causal_mask(queries, keys) if mask in ("causal", "both") else None
    return {"key_padding_mask": padding, "attn_mask": causal}


def our_masks(mask: str, lengths: Tensor) -> dict[str, Any]:
    real = length_mask(lengths, int(lengths.max()))[:, None] if mask in ("padding", "both") else None
    return {"mask": real, "causal": mask in ("causal", "both")}


def their_gradients(module: nn.MultiheadAttention) -> Tensor:
    """The gradients of the maps of queries, keys, values and of the output, all in one row."""
    parts = [module.in_proj_weight, module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]
    parts += [module.in_proj_bias, module.out_proj.weight, module.out_proj.bias]
    return torch.cat([part.grad.flatten() for part in parts if part is not None])


def our_gradients(attention: MultiHeadAttention) -> Tensor:
    """The same of ours: matrices of queries, keys and values come first, then their biases."""
    maps = [attention.joint, attention.query, attention.memory, attention.key, attention.value]
    inner = [linear for linear in maps if linear is not None]
    parts = [linear.weight for linear in inner] + [linear.bias for linear in inner]
    parts += [attention.output.weight, attention.output.bias]
    return torch.cat([part.grad.flatten() for part in parts if part is not None])


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_self_attention(mask: str, bias: bool, batch_first: bool) -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=batch_first)
    jitter(theirs)
    ours = MultiHeadAttention.from_torch(theirs)
    x = torch.randn(3, 6, WIDTH, requires_grad=True)
    for module in (theirs, ours.to_torch()):
        inputs = ordered(module, x, x, x)
        expected, used = module(*inputs, **their_masks(mask, 6, LENGTHS), average_attn_weights=False)
        expected = gradients(expected if module.batch_first else expected.transpose(0, 1), x)
        assert_close(gradients(ours(x, **our_masks(mask, LENGTHS)), x), expected, **CLOSE)
        assert_close(ours(x, **our_masks(mask, LENGTHS), weights=True)[1], used, **CLOSE)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("sizes", [{}, {"kdim": 5, "vdim": 5}, {"kdim": 5, "vdim": 7}, {"vdim": 7}], ids=str)
@pytest.mark.parametrize("batch_first", [False, True])
def test_attention_to_another_input(mask: str, sizes: dict[str, int], batch_first: bool) -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first, **sizes)
    jitter(theirs)
    ours = MultiHeadAttention.from_torch(theirs, cross=True)
    x = torch.randn(3, 4, WIDTH, requires_grad=True)
    key = torch.randn(3, 5, theirs.kdim, requires_grad=True)
    value = key if theirs.kdim == theirs.vdim else torch.randn(3, 5, theirs.vdim, requires_grad=True)
    inputs = (x, key) if value is key else (x, key, value)
    # Aligned at its end, a causal mask lets the first of four queries see two of five keys.
    found = gradients(ours(*inputs, **our_masks(mask, OTHER_LENGTHS)), *inputs)
    for module in (theirs, ours.to_torch()):
        expected, _ = module(*ordered(module, x, key, value), **their_masks(mask, 4, OTHER_LENGTHS))
        assert_close(found, gradients(expected if module.batch_first else expected.transpose(0, 1), *inputs), **CLOSE)


@pytest.mark.parametrize("sizes", [{}, {"kdim": 5, "vdim": 7}], ids=str)
def test_every_weight_gets_the_same_gradient(sizes: dict[str, int]) -> None:
    theirs = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True, **sizes)
    ours = MultiHeadAttention.from_torch(theirs)
    inputs = [torch.randn(3, 6, size) for size in ((WIDTH, 5, 7) if sizes else (WIDTH,))]
    ours(*inputs, causal=True).square().sum().backward()
    theirs(*(inputs if sizes else inputs * 3), attn_mask=~causal_mask(6, 6))[0].square().sum().backward()
    assert_close(our_gradients(ours), their_gradients(theirs), **CLOSE)


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize(("bias", "batch_first"), [(True, True), (False, True), (True, False)])
def test_encoder_layer(mask: str, norm_first: bool, activation: Any, bias: bool, batch_first: bool) -> None:
    options = {"norm_first": norm_first, "activation": activation, "bias": bias, "batch_first": batch_first}
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, 20, dropout=0.0, layer_norm_eps=1e-3, **options)
    jitter(theirs)
    ours = EncoderBlock.from_torch(theirs)
    x = torch.randn(3, 6, WIDTH, requires_grad=True)
    found = gradients(ours(x, **our_masks(mask, LENGTHS)), x, ours.feedforward.inner.weight, norm_of(ours))
    for layer in (theirs, ours.to_torch()):
        masks = their_masks(mask, 6, LENGTHS)
        first = layer.self_attn.batch_first
        expected = layer(
            x if first else x.transpose(0, 1),
            src_mask=masks["attn_mask"],
            src_key_padding_mask=masks["key_padding_mask"],
        )
        inputs = (x, layer.linear1.weight, layer.norm1.weight)
        assert_close(found, gradients(expected if first else expected.transpose(0, 1), *inputs), **CLOSE)


def norm_of(block: EncoderBlock | DecoderBlock) -> Tensor:
    return block.around_attention.norm.weight


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("batch_first", [False, True])
def test_decoder_layer(padded: bool, norm_first: bool, activation: Any, batch_first: bool) -> None:
    """With a target that is padded too: its padding is at the end, which no real position sees."""
    options = {"norm_first": norm_first, "activation": activation, "batch_first": batch_first}
    theirs = nn.TransformerDecoderLayer(WIDTH, HEADS, 20, dropout=0.0, **options)
    jitter(theirs)
    ours = DecoderBlock.from_torch(theirs)
    x, memory = torch.randn(3, 6, WIDTH, requires_grad=True), torch.randn(3, 5, WIDTH, requires_grad=True)
    real = length_mask(LENGTHS, 6) if padded else torch.ones(3, 6, dtype=torch.bool)
    seen = length_mask(OTHER_LENGTHS, 5) if padded else None
    found = ours(x, memory, mask=None if seen is None else seen[:, None])[real]
    found = gradients(found, x, memory, ours.feedforward.outer.weight, norm_of(ours))
    for layer in (theirs, ours.to_torch()):
        first = layer.self_attn.batch_first
        inputs = (x, memory) if first else (x.transpose(0, 1), memory.transpose(0, 1))
        expected = layer(
            *inputs,
            tgt_mask=~causal_mask(6, 6),
            tgt_key_padding_mask=~real if padded else None,
            memory_key_padding_mask=None if seen is None else ~seen,
        )
        expected = (expected if first else expected.transpose(0, 1))[real]
        weights = (x, memory, layer.linear2.weight, layer.norm1.weight)
        assert_close(found, gradients(expected, *weights), **CLOSE)


def test_a_memory_of_another_size_goes_to_torch_and_back() -> None:
    ours = DecoderBlock(WIDTH, heads=HEADS, feedforward=20, memory_size=7)
    jitter(ours)
    x, memory = torch.randn(2, 4, WIDTH), torch.randn(2, 5, 7)
    layer = ours.to_torch()
    assert_close(layer(x, memory, tgt_mask=~causal_mask(4, 4)), ours(x, memory), **CLOSE)
    assert_close(DecoderBlock.from_torch(layer)(x, memory), ours(x, memory), **CLOSE)


def test_type_mode_and_every_dropout_are_kept_and_chance_is_left_alone() -> None:
    theirs = nn.TransformerDecoderLayer(WIDTH, HEADS, 20, dropout=0.3, dtype=torch.float64).eval()
    theirs.self_attn.dropout, theirs.dropout.p = 0.1, 0.2
    torch.manual_seed(0)
    ours = DecoderBlock.from_torch(theirs)
    back = ours.to_torch()
    expected = torch.randn(3)
    torch.manual_seed(0)
    assert_close(torch.randn(3), expected)
    assert {weight.dtype for weight in (*ours.parameters(), *back.parameters())} == {torch.float64}
    assert (ours.attention.dropout, ours.cross.dropout, ours.feedforward.dropout) == (0.1, 0.3, 0.2)
    assert ours.around_cross.dropout == 0.3
    assert (back.self_attn.dropout, back.multihead_attn.dropout, back.dropout.p, back.dropout2.p) == (
        0.1,
        0.3,
        0.2,
        0.3,
    )
    assert not any(part.training for module in (ours, back) for part in module.modules())


def test_units_between_the_maps_are_dropped_in_training_only() -> None:
    net = FeedForward(4, 2000, dropout=0.25)
    nn.init.zeros_(net.inner.weight)
    nn.init.ones_(net.inner.bias)
    nn.init.constant_(net.outer.weight, 1 / 2000)
    x = torch.zeros(1, 4)
    assert_close(net.eval()(x), torch.ones(1, 4))
    dropped = net.train()(x)
    assert_close(dropped, torch.ones(1, 4), atol=0.1, rtol=0)
    assert not torch.equal(dropped, torch.ones(1, 4))


def test_the_weights_are_copies() -> None:
    theirs = nn.TransformerEncoderLayer(WIDTH, HEADS, 20)
    ours = EncoderBlock.from_torch(theirs)
    before = {name: weight.clone() for name, weight in ours.state_dict().items()}
    for module in (theirs, ours.to_torch()):
        for weight in module.parameters():
            nn.init.zeros_(weight)
    assert_close(dict(ours.state_dict()), before)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"add_bias_kv": True}, "add_bias_kv = True adds a key"),
        ({"add_zero_attn": True}, "add_zero_attn = True adds a key"),
        ({"kdim": 5}, r"kdim = 5 and vdim = 12 are not the 12 features .*leave cross out"),
    ],
)
def test_attention_that_cannot_be_carried(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        MultiHeadAttention.from_torch(nn.MultiheadAttention(WIDTH, HEADS, **options), cross=False)


def test_layers_that_cannot_be_carried() -> None:
    with pytest.raises(ConfigError, match=r"activation = mish: has no counterpart in weft \(use relu, gelu or silu\)"):
        EncoderBlock.from_torch(nn.TransformerEncoderLayer(WIDTH, HEADS, 20, activation=nn.functional.mish))
    uneven = nn.TransformerEncoderLayer(WIDTH, HEADS, 20)
    uneven.dropout2.p = 0.5
    with pytest.raises(ConfigError, match=r"its dropouts differ: 0\.1, 0\.5"):
        EncoderBlock.from_torch(uneven)
    for kind, twin in ((EncoderBlock, "Encoder"), (DecoderBlock, "Decoder")):
        with pytest.raises(
            ConfigError, match=rf"Linear has no counterpart in weft \(give an nn\.Transformer{twin}Layer\)"
        ):
            kind.from_torch(nn.Linear(2, 3))
    with pytest.raises(ConfigError, match="Linear has no counterpart in weft"):
        MultiHeadAttention.from_torch(nn.Linear(2, 3))


@pytest.mark.parametrize(
    ("attention", "reason"),
    [
        (MultiHeadAttention(12, heads=3, head_size=5), "3 heads of 5 and 5 features at a width of 12"),
        (MultiHeadAttention(12, heads=3, value_head_size=5), "3 heads of 4 and 5 features at a width of 12"),
        (MultiHeadAttention(12, heads=3, output_size=5), "output_size = 5 at a width of 12"),
        (MultiHeadAttention(12, heads=3, score=Additive(4, 4)), "another score than scaled_dot"),
        (MultiHeadAttention(12, heads=3, rotary=True), "rotary positions"),
    ],
)
def test_what_torch_has_no_attention_for(attention: MultiHeadAttention, reason: str) -> None:
    with pytest.raises(ConfigError, match=f"torch has no attention with {reason}"):
        attention.to_torch()


@pytest.mark.parametrize(("option", "reason"), [({"norm": "rezero"}, "rezero"), ({"activation": "swiglu"}, "swiglu")])
def test_what_torch_has_no_layer_for(option: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=f"torch has no layer with .*{reason}"):
        EncoderBlock(WIDTH, heads=HEADS, feedforward=20, **option).to_torch()
