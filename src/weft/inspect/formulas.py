"""Formulas for the number of parameters of a part: 4·p·H·m of an attention, 2·p·n + n + p of a feed-forward net."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from torch import nn

from weft.models.embedding import Vectors
from weft.nn import CELLS, AttentionPooling, FeedForward, MultiHeadAttention
from weft.nn.linear import Linear
from weft.nn.transformer import ReZero
from weft.nn.transformer.norm import LayerNorm


class Formula(NamedTuple):
    """A count as text, such as "4·p·H·m", and the size that each letter stands for."""

    text: str
    sizes: Mapping[str, int]

    def __str__(self) -> str:
        return self.text


def attention(part: MultiHeadAttention) -> Formula | None:
    """p features of the queries' input, k and u of the keys' and values', o of the output; H heads of m and v."""
    if isinstance(part.score, nn.Module) and any(True for _ in part.score.parameters()):
        return None
    maps = [linear for linear in (part.joint, part.query, part.memory, part.key, part.value) if linear is not None]
    p, k, u = (maps[min(number, len(maps) - 1)].in_features for number in range(3))
    m, v, o = part.head_size, part.value_head_size, part.output.out_features
    sizes, biased = {"p": p, "H": part.heads, "m": m}, part.output.bias is not None
    if p == o and k == u and m == v:
        text = "4·p·H·m" if k == p else "2·p·H·m + 2·k·H·m"
        sizes |= {} if k == p else {"k": k}
        return Formula(text + (" + 3·H·m + p" if biased else ""), sizes)
    text = "p·H·m + k·H·m + u·H·v + H·v·o" + (" + 2·H·m + H·v + o" if biased else "")
    return Formula(text, sizes | {"k": k, "u": u, "v": v, "o": o})


def feedforward(part: FeedForward) -> Formula:
    sizes = {"p": part.outer.out_features, "n": part.outer.in_features}
    return Formula("3·p·n" if part.gated else "2·p·n + n + p", sizes)


def linear(part: nn.Linear) -> Formula:
    sizes = {"a": part.in_features, "b": part.out_features}
    return Formula("a·b" if part.bias is None else "a·b + b", sizes)


def convolution(part: nn.Conv2d) -> Formula:
    sizes = {"a": part.in_channels, "b": part.out_channels, "k": part.kernel_size[0]}
    return Formula("k·k·a·b" if part.bias is None else "k·k·a·b + b", sizes)


def group_norm(part: nn.GroupNorm) -> Formula:
    return Formula("2·p", {"p": part.num_channels})


def norm(part: nn.LayerNorm) -> Formula:
    return Formula("2·p", {"p": part.normalized_shape[0]})


def table(part: nn.Embedding) -> Formula:
    return Formula("V·d", {"V": part.num_embeddings, "d": part.embedding_dim})


def pooling(part: AttentionPooling) -> Formula:
    return Formula("d·d + d + q·d", {"d": part.size, "q": part.query.size(0)})


def gated(gates: int, more: str = "") -> Callable[[Any], Formula]:
    """A recurrent cell whose gates each read the input and the state, with a bias or without; I inputs, H units."""
    text = ("" if gates == 1 else f"{gates}·") + "H·(I + H + 1)" + more

    def formula(cell: Any) -> Formula:
        return Formula(text if cell.bias else unbiased(text), {"I": cell.input_size, "H": cell.hidden_size})

    return formula


def unbiased(text: str) -> str:
    """The formula of a cell without biases."""
    return text.replace(" + 1)", ")").removesuffix(" + H")


def elman(cell: Any) -> Formula:
    return gated(1, " + I·H + H·(H + 1)" if cell.feedback else "")(cell)


def peephole(cell: Any) -> Formula:
    return gated(4, " + 3·H·H" if isinstance(cell.output_from_memory, nn.Linear) else " + 3·H")(cell)


def projected(cell: Any) -> Formula:
    sizes = {"I": cell.input_size, "H": cell.hidden_size, "P": cell.output_size}
    text = "4·H·(I + P + 1) + H·P"
    return Formula(text if cell.bias else unbiased(text), sizes)


FORMULAS: Final[dict[type, Callable[[Any], Formula | None]]] = {
    MultiHeadAttention: attention,
    FeedForward: feedforward,
    nn.Linear: linear,
    Linear: linear,
    nn.Conv2d: convolution,
    nn.GroupNorm: group_norm,
    nn.LayerNorm: norm,
    LayerNorm: norm,
    ReZero: lambda _: Formula("1", {}),
    nn.Embedding: table,
    Vectors: table,
    AttentionPooling: pooling,
    CELLS["elman"]: elman,
    CELLS["lstm"]: gated(4),
    CELLS["coupled_lstm"]: gated(3),
    CELLS["gru"]: gated(3),
    CELLS["gru_reset_after"]: gated(3, " + H"),
    CELLS["peephole_lstm"]: peephole,
    CELLS["projected_lstm"]: projected,
}
"""The formula of each class; a result of None means that its parts are described instead. Subclasses do not count, as
they may have more parameters."""
