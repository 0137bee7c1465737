"""The layers of torch's transformers and our blocks: the same numbers with the weights of the other.

    torch                             weft
    nn.TransformerEncoderLayer        EncoderBlock
    nn.TransformerDecoderLayer        DecoderBlock, which reads causally, whatever mask torch's layer is given

norm_first is our norm "pre", otherwise it is "post".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import torch
import torch.nn.functional as F
from torch import nn

from weft.errors import ConfigError
from weft.nn.attention import MultiHeadAttention
from weft.nn.transformer.feedforward import FUNCTIONS, Activation
from weft.nn.transformer.norm import PostNorm, PreNorm

if TYPE_CHECKING:
    from weft.nn.transformer.block import DecoderBlock, EncoderBlock

Block = TypeVar("Block", bound="EncoderBlock | DecoderBlock")

Layer = nn.TransformerEncoderLayer | nn.TransformerDecoderLayer

PARTS: Final[dict[type[nn.Module], tuple[str, ...]]] = {
    nn.TransformerEncoderLayer: ("around_attention", "around_feedforward"),
    nn.TransformerDecoderLayer: ("around_attention", "around_cross", "around_feedforward"),
}
"""Our parts in the order of torch's norm1, norm2, … and dropout1, dropout2, …"""

ATTENTIONS: Final = {"attention": "self_attn", "cross": "multihead_attn"}
LINEARS: Final = {"inner": "linear1", "outer": "linear2"}


@torch.no_grad()
def block_from_torch(kind: type[Block], module: Layer, counterpart: type[Layer]) -> Block:
    """A block of that kind with the weights of the module, which must be a `counterpart`."""
    if not isinstance(module, counterpart):
        what = f"{type(module).__name__} has no counterpart in weft"
        raise ConfigError(what, where="module", cure=f"give an nn.{counterpart.__name__}")
    names, weight = PARTS[counterpart], module.linear1.weight
    with torch.device("meta"):
        block = kind(
            module.linear1.in_features,
            heads=module.self_attn.num_heads,
            feedforward=module.linear1.out_features,
            norm="pre" if module.norm_first else "post",
            activation=_activation(module),
            dropout=_dropout(module, len(names)),
        )
    block.to(weight.dtype).to_empty(device=weight.device)
    for mine, its in ATTENTIONS.items():
        if hasattr(module, its):
            setattr(block, mine, MultiHeadAttention.from_torch(getattr(module, its), cross=mine == "cross"))
    for mine, its in LINEARS.items():
        _copy(getattr(module, its), getattr(block.feedforward, mine))
    block.feedforward.dropout = module.dropout.p
    for number, name in enumerate(names, 1):
        norm = getattr(module, f"norm{number}")
        _copy(norm, getattr(block, name).norm)
        getattr(block, name).norm.eps = norm.eps
    block.train(module.training)
    return block


@torch.no_grad()
def block_to_torch(block: EncoderBlock | DecoderBlock, counterpart: type[Layer]) -> Any:
    """A `counterpart`, batch first, that computes what the block does; a ConfigError where torch has none."""
    first = block.around_attention
    if not isinstance(first, PostNorm | PreNorm) or block.feedforward.gated:
        reason = "swiglu" if block.feedforward.gated else 'norm = "rezero"'
        cure = "it has post and pre, with any function of each unit"
        raise ConfigError(f"torch has no layer with {reason}", where="to_torch", cure=cure)
    inner = block.feedforward.inner
    module: Any = counterpart(
        inner.in_features,
        block.attention.heads,
        dim_feedforward=inner.out_features,
        dropout=first.dropout.rate if isinstance(first, PreNorm) else first.dropout,
        activation=FUNCTIONS[block.feedforward.activation],
        norm_first=isinstance(first, PreNorm),
        batch_first=True,
        dtype=inner.weight.dtype,
        device="meta",
    ).to_empty(device=inner.weight.device)
    for mine, its in ATTENTIONS.items():
        if hasattr(module, its):
            setattr(module, its, getattr(block, mine).to_torch())
    for mine, its in LINEARS.items():
        _copy(getattr(block.feedforward, mine), getattr(module, its))
    module.dropout.p = block.feedforward.dropout
    for number, name in enumerate(PARTS[counterpart], 1):
        norm = getattr(module, f"norm{number}")
        _copy(getattr(block, name).norm, norm)
        norm.eps = getattr(block, name).norm.eps
    return module.train(block.training)


def _copy(given: nn.Linear | nn.LayerNorm, taking: nn.Linear | nn.LayerNorm) -> None:
    """Copy weight and bias; a missing bias counts as zero."""
    taking.weight.copy_(given.weight)
    if taking.bias is not None:
        taking.bias.zero_() if given.bias is None else taking.bias.copy_(given.bias)


def _activation(module: Layer) -> Activation:
    activation = module.activation
    if activation is F.relu or isinstance(activation, nn.ReLU):
        return "relu"
    if activation is F.gelu or isinstance(activation, nn.GELU):
        return "gelu_tanh" if getattr(activation, "approximate", "none") == "tanh" else "gelu"
    if activation is FUNCTIONS["gelu_tanh"]:
        return "gelu_tanh"
    if activation is F.silu or isinstance(activation, nn.SiLU):
        return "silu"
    name = getattr(activation, "__name__", None) or str(activation)
    raise ConfigError("has no counterpart in weft", where=f"activation = {name}", cure="use relu, gelu or silu")


def _dropout(module: Layer, parts: int) -> float:
    """The share dropped of what a part adds, the same for all of them."""
    shares = [float(getattr(module, f"dropout{number}").p) for number in range(1, parts + 1)]
    if len(set(shares)) > 1:
        what = f"its dropouts differ: {', '.join(map(str, shares))}"
        raise ConfigError(what, where="module", cure="give dropout1, dropout2, … one share")
    return shares[0]
