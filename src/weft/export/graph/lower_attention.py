"""The attention of a recurrent decoder to the source, as a graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from weft.export.graph.build import Builder
from weft.export.graph.graph import Value
from weft.export.graph.lower_input import dense
from weft.export.graph.refusal import Lowerings, lowering_of
from weft.models.decoders import Readout, SourceAttention
from weft.nn.attention.scores import Additive, Bilinear, Concat, Dot, LowRank, ScaledDot, Score


class Scored(NamedTuple):
    """How a score compares: the map of a query, the weight of an additive score, and the factor without a scale."""

    query: Callable[[Value], Value]
    weight: Any
    factor: float


def _same(x: Value) -> Value:
    return x


def _scaled_dot(build: Builder, score: ScaledDot, size: int) -> Scored:
    return Scored(_same, None, size**-0.5)


def _dot(build: Builder, score: Dot | Bilinear, size: int) -> Scored:
    return Scored(_same, None, 1.0)


def _low_rank(build: Builder, score: LowRank, size: int) -> Scored:
    return Scored(lambda query: dense(build, score.u, query), None, 1.0)


def _additive(build: Builder, score: Additive, size: int) -> Scored:
    return Scored(lambda query: dense(build, score.w_a, query), score.w.weight[0], 1.0)


def _concat(build: Builder, score: Concat, size: int) -> Scored:
    weight = score.joint.weight[:, : score.query_size]
    return Scored(lambda query: build.linear(query, weight), score.w.weight[0], 1.0)


SCORES: Final[Lowerings] = {
    Dot: _dot,
    ScaledDot: _scaled_dot,
    Bilinear: _dot,
    LowRank: _low_rank,
    Additive: _additive,
    Concat: _concat,
}


def keys_of(build: Builder, look: SourceAttention, states: Value) -> Value | None:
    """states (S, D) -> the part of the score that depends on them alone, (S, A); None where it is the states."""
    score: Score = look.score
    if isinstance(score, Bilinear):
        return dense(build, score.keys_to_query, states)
    if isinstance(score, LowRank):
        return dense(build, score.v, states)
    if isinstance(score, Additive):
        return dense(build, score.w_b, states)
    if isinstance(score, Concat):
        return build.linear(states, score.joint.weight[:, score.query_size :])
    return None


def look_at(build: Builder, look: SourceAttention, query: Value, state: dict[str, Value]) -> tuple[Value, Value]:
    """query (T, Q) and the source in the state -> context (T, D), weights (1, T, S)."""
    values = state["source_states"]
    keys = state.get("source_keys", values)
    time, size = query.shape
    assert isinstance(size, int)
    scored = lowering_of(SCORES, look.score, "a score of attention")(build, look.score, size)
    scale = scored.factor if look.scale is None else look.scale
    query, keys, values = (_one_head(build, x) for x in (scored.query(query), keys, values))
    context, weights = build.attend(query, keys, values, weight=scored.weight, scale=scale, hard=look.hard)
    return build.reshape(context, (time, context.shape[2])), weights


def read_out(build: Builder, readout: Readout, context: Value, states: Value) -> Value:
    """tanh(W [context; state])."""
    return build.unary("tanh", dense(build, readout.map, build.concat([context, states])))


def _one_head(build: Builder, x: Value) -> Value:
    return build.reshape(x, (x.shape[0], 1, x.shape[1]))
