"""nn.MultiheadAttention and ours: the same numbers with the weights of the other.

torch keeps the maps of queries, keys and values as one matrix where all three inputs have one size, whatever they are,
and as three otherwise. Ours keeps one where they are the same input, two where keys and values are, three otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from weft.errors import ConfigError

if TYPE_CHECKING:
    from weft.nn.attention.multihead import MultiHeadAttention


def settings_of(module: nn.MultiheadAttention, *, cross: bool | None) -> dict[str, Any]:
    """Settings of a `MultiHeadAttention` that computes the same as the module."""
    if not isinstance(module, nn.MultiheadAttention):
        what = f"{type(module).__name__} has no counterpart in weft"
        raise ConfigError(what, where="module", cure="give an nn.MultiheadAttention")
    if module.bias_k is not None or module.add_zero_attn:
        name = "add_bias_kv" if module.bias_k is not None else "add_zero_attn"
        what, cure = f"{name} = True adds a key that stands for no position", f"build the module with {name}=False"
        raise ConfigError(what, where="module", cure=cure)
    width, keys, values = module.embed_dim, module.kdim, module.vdim
    other = keys != width or values != width
    if other and cross is False:
        what = f"kdim = {keys} and vdim = {values} are not the {width} features of the queries' input"
        raise ConfigError(what, where="cross = False", cure="leave cross out: this is attention to another input")
    return {
        "query_size": width,
        "key_size": keys if cross or other else None,
        "value_size": values if keys != values else None,
        "heads": module.num_heads,
        "bias": module.in_proj_bias is not None,
        "dropout": module.dropout,
    }


@torch.no_grad()
def copy_from(module: nn.MultiheadAttention, attention: MultiHeadAttention) -> None:
    """Fill attention that was built by `settings_of` with the weights of the module."""
    weights = _matrices(module)
    biases = None if module.in_proj_bias is None else module.in_proj_bias.chunk(3)
    for linear, first, last in _maps(attention):
        linear.weight.copy_(torch.cat(weights[first:last]))
        if biases is not None:
            linear.bias.copy_(torch.cat(biases[first:last]))
    attention.output.weight.copy_(module.out_proj.weight)
    if biases is not None:
        attention.output.bias.copy_(module.out_proj.bias)


@torch.no_grad()
def to_torch(attention: MultiHeadAttention) -> nn.MultiheadAttention:
    """An nn.MultiheadAttention, batch first, that computes the same; a ConfigError where torch has none."""
    if reason := _missing(attention):
        cure = "it has heads of width / heads features, scaled products and no positions"
        raise ConfigError(f"torch has no attention with {reason}", where="to_torch", cure=cure)
    maps, weight = list(_maps(attention)), attention.output.weight
    module = nn.MultiheadAttention(
        maps[0][0].in_features,
        attention.heads,
        dropout=attention.dropout,
        bias=attention.output.bias is not None,
        kdim=maps[min(1, len(maps) - 1)][0].in_features,
        vdim=maps[-1][0].in_features,
        batch_first=True,
        dtype=weight.dtype,
        device="meta",
    ).to_empty(device=weight.device)
    for linear, first, last in maps:
        for matrix, part in zip(_matrices(module)[first:last], linear.weight.chunk(last - first), strict=True):
            matrix.copy_(part)
        if linear.bias is not None:
            module.in_proj_bias.view(3, -1)[first:last].copy_(linear.bias.view(last - first, -1))
    module.out_proj.weight.copy_(weight)
    if attention.output.bias is not None:
        module.out_proj.bias.copy_(attention.output.bias)
    return module.train(attention.training)


def _matrices(module: nn.MultiheadAttention) -> list[Tensor]:
    """The maps of queries, keys and values."""
    if module.in_proj_weight is not None:
        return list(module.in_proj_weight.chunk(3))
    return [module.q_proj_weight, module.k_proj_weight, module.v_proj_weight]


def _maps(attention: MultiHeadAttention) -> list[tuple[nn.Linear, int, int]]:
    """Each map, and which of queries (0), keys (1) and values (2) it makes: from the first to before the last."""
    maps = [(attention.joint, 0, 3), (attention.query, 0, 1), (attention.memory, 1, 3)]
    maps += [(attention.key, 1, 2), (attention.value, 2, 3)]
    return [(linear, first, last) for linear, first, last in maps if linear is not None]


def _missing(attention: MultiHeadAttention) -> str:
    """Why no module of torch computes the same, or an empty string when one does."""
    width = _maps(attention)[0][0].in_features
    sizes = (attention.head_size, attention.value_head_size)
    if attention.heads * sizes[0] != width or sizes[0] != sizes[1]:
        return f"{attention.heads} heads of {sizes[0]} and {sizes[1]} features at a width of {width}"
    if attention.output.out_features != width:
        return f"output_size = {attention.output.out_features} at a width of {width}"
    if attention.score != "scaled_dot":
        return "another score than scaled_dot"
    if attention.hard or attention.scale is not None:
        return "hard attention" if attention.hard else f"scale = {attention.scale:g}"
    return "rotary positions" if attention.rotary is not None else ""
