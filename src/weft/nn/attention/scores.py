"""How well a query fits a key.

    dot         q·k                      low_rank    (U q)·(V k)
    scaled_dot  q·k / √D                 concat      w·tanh(W [q; k])
    bilinear    q·W k                    additive    w·tanh(W_a q + W_b k)

Any of them may be multiplied by a scale: a number, or by name

    none  1          sqrt_d  1/√Q          sqrt_max  1/√max(Q, K)

Queries are (…, Tq, Q), keys (…, Tk, K), scores (…, Tq, Tk). Half of the work on the keys does not depend on the query;
a decoder does it once per sentence and asks only for the rest at each step:

    keys = score.keys(memory)
    context = attend(query, keys, memory, score=score.compare)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn

from weft.errors import ConfigError

ScoreFunction: TypeAlias = Callable[[Tensor, Tensor], Tensor]


ScaleName = Literal["none", "sqrt_d", "sqrt_max"]
Scale: TypeAlias = float | ScaleName


def scale_of(scale: Scale, query_size: int, key_size: int) -> float:
    """The factor that a scale stands for, for queries and keys of these sizes."""
    if not isinstance(scale, str):
        return scale
    sizes = {"none": 1, "sqrt_d": query_size, "sqrt_max": max(query_size, key_size)}
    if scale not in sizes:
        raise ConfigError(f'"{scale}" is not a scale', where="scale", cure=f"a number, or {', '.join(sizes)}")
    return float(sizes[scale] ** -0.5)


def dot(query: Tensor, key: Tensor) -> Tensor:
    """(…, Tq, D), (…, Tk, D) -> (…, Tq, Tk)."""
    return torch.matmul(query, key.transpose(-2, -1))


def scaled_dot(query: Tensor, key: Tensor) -> Tensor:
    """The dot product over √D, so that its spread does not grow with D."""
    return dot(query, key) / math.sqrt(query.size(-1))


class StepScore(NamedTuple):
    """The score that a compiled recurrence computes for each key k of `keys`: scale * q·k, or over·tanh(q + k)."""

    query: Tensor
    over: Tensor | None
    scale: float


class Score(nn.Module):
    """score(query, key) = compare(query, keys(key))."""

    compare: ScoreFunction
    """(…, Tq, Q), what `keys` gave -> (…, Tq, Tk). A score ending in a plain product names `dot`, for the fast path."""

    product_of_maps: bool = False
    """Whether it is a product of learned maps, which a decoder divides by √Q."""

    def keys(self, key: Tensor) -> Tensor:
        """(…, Tk, K) -> what `compare` wants; computed once for all queries."""
        return key

    def for_step(self, query: Tensor) -> StepScore | None:
        """query (B, Q) -> the score of one step in the form that a compiled recurrence knows, or None: then a decoder
        that attends inside its recurrence runs step by step."""
        return StepScore(query, None, 1.0) if self.compare is dot else None

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        """(…, Tq, Q), (…, Tk, K) -> (…, Tq, Tk)."""
        return self.compare(query, self.keys(key))


class Dot(Score):
    """q·k; no weights."""

    compare = staticmethod(dot)

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        _check_equal("dot", query_size, key_size)


class ScaledDot(Score):
    """q·k / √D; no weights."""

    compare = staticmethod(scaled_dot)

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        _check_equal("scaled_dot", query_size, key_size)

    def for_step(self, query: Tensor) -> StepScore:
        return StepScore(query, None, query.size(-1) ** -0.5)


class Bilinear(Score):
    """q·W k: one matrix, sizes may differ."""

    compare = staticmethod(dot)
    product_of_maps = True

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.keys_to_query = nn.Linear(key_size, query_size, bias=False)

    def keys(self, key: Tensor) -> Tensor:
        """(…, Tk, K) -> W k (…, Tk, Q)."""
        projected: Tensor = self.keys_to_query(key)
        return projected


class LowRank(Score):
    """(U q)·(V k): a bilinear score whose matrix UᵀV has the given rank."""

    product_of_maps = True

    def __init__(self, query_size: int, key_size: int, *, rank: int | None = None) -> None:
        super().__init__()
        rank = rank or max(1, min(query_size, key_size) // 2)
        self.u = nn.Linear(query_size, rank, bias=False)
        self.v = nn.Linear(key_size, rank, bias=False)

    def keys(self, key: Tensor) -> Tensor:
        """(…, Tk, K) -> V k (…, Tk, rank)."""
        projected: Tensor = self.v(key)
        return projected

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """(…, Tq, Q), V k -> (…, Tq, Tk)."""
        return dot(self.u(query), keys)

    def for_step(self, query: Tensor) -> StepScore:
        return StepScore(self.u(query), None, 1.0)


class Additive(Score):
    """w·tanh(W_a q + W_b k) (Bahdanau et al., 2015)."""

    def __init__(self, query_size: int, key_size: int, *, size: int | None = None) -> None:
        super().__init__()
        size = size or query_size
        self.w_a = nn.Linear(query_size, size, bias=False)
        self.w_b = nn.Linear(key_size, size, bias=False)
        self.w = nn.Linear(size, 1, bias=False)

    def keys(self, key: Tensor) -> Tensor:
        """(…, Tk, K) -> W_b k (…, Tk, size)."""
        projected: Tensor = self.w_b(key)
        return projected

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """(…, Tq, Q), W_b k -> (…, Tq, Tk)."""
        return _over_pairs(self.w, self.w_a(query), keys)

    def for_step(self, query: Tensor) -> StepScore:
        return StepScore(self.w_a(query), self.w.weight[0], 1.0)


class Concat(Score):
    """w·tanh(W [q; k]) (Luong et al., 2015): the columns of W that meet the keys are applied on their own."""

    def __init__(self, query_size: int, key_size: int, *, size: int | None = None) -> None:
        super().__init__()
        self.query_size = query_size
        self.joint = nn.Linear(query_size + key_size, size or query_size, bias=False)
        self.w = nn.Linear(size or query_size, 1, bias=False)

    def keys(self, key: Tensor) -> Tensor:
        """(…, Tk, K) -> the keys' share of W [q; k] (…, Tk, size)."""
        return nn.functional.linear(key, self.joint.weight[:, self.query_size :])

    def compare(self, query: Tensor, keys: Tensor) -> Tensor:
        """(…, Tq, Q), the keys' share -> (…, Tq, Tk)."""
        return _over_pairs(self.w, self._share_of(query), keys)

    def for_step(self, query: Tensor) -> StepScore:
        return StepScore(self._share_of(query), self.w.weight[0], 1.0)

    def _share_of(self, query: Tensor) -> Tensor:
        """(…, Tq, Q) -> the query's share of W [q; k] (…, Tq, size)."""
        return nn.functional.linear(query, self.joint.weight[:, : self.query_size])


SCORES: Final[dict[str, Callable[[int, int], Score]]] = {
    "dot": Dot,
    "scaled_dot": ScaledDot,
    "bilinear": Bilinear,
    "low_rank": LowRank,
    "concat": Concat,
    "additive": Additive,
}
"""Name to builder, called as `SCORES[name](query_size, key_size)`."""


FUNCTIONS: Final[dict[str, ScoreFunction]] = {"dot": dot, "scaled_dot": scaled_dot}
"""Scores without weights, by the name that `attend` takes."""


def _over_pairs(w: nn.Linear, queries: Tensor, keys: Tensor) -> Tensor:
    """(…, Tq, A), (…, Tk, A) -> w·tanh(q + k) for every pair (…, Tq, Tk)."""
    scores: Tensor = w(torch.tanh(queries.unsqueeze(-2) + keys.unsqueeze(-3))).squeeze(-1)
    return scores


def _check_equal(name: str, query_size: int, key_size: int) -> None:
    if query_size != key_size:
        what = f'"{name}" needs queries and keys of one size, not {query_size} and {key_size}'
        raise ConfigError(what, where="attention", cure='"bilinear" and "additive" do not')
