"""A model as graphs of layer-level operations on one row: what every export that runs without torch is written from.

A value has the shape that it has for ONE row. An axis is a number, or the name of a length that the input decides, such
as "source". A backend that takes one row at a time (C) uses the shapes as they are, and there is no padding. A backend
of batches (ONNX) adds a first axis of rows; it pads the axes that are `ragged`, has their lengths as inputs, and keeps
every operation along them exact: attention, softmax, reductions, `last`, `reverse` and `recur` never see padding.

    Program    graphs that share constants; the fields of a state that a decoder carries from step to step
    Graph      inputs -> nodes in order -> outputs
    Node       an operation of `OPERATIONS` on values, with attributes; some have an inner graph, the body of a loop
    Value      a name, a shape, and "float", "int" or "bool"
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from numpy.typing import NDArray

Size = int | str
"""The size of an axis: a number, or the name of a length."""

Kind = Literal["float", "int", "bool"]


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor in a graph; equal only to itself. Names are unique in a program's graph."""

    name: str
    shape: tuple[Size, ...]
    kind: Kind = "float"


@dataclass(frozen=True, eq=False)
class Node:
    """One operation. `body` is the inner graph of `recur`."""

    op: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    body: Graph | None = None


@dataclass(frozen=True)
class Graph:
    """Inputs, nodes in the order of computation, outputs. `constants` are weights: the same array is the same tensor of
    the program, also in several graphs; their values stand among the inputs of nodes."""

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    nodes: tuple[Node, ...]
    constants: Mapping[Value, NDArray[Any]]


@dataclass(frozen=True)
class StateField:
    """A tensor that a step reads and returns. `shared`: it belongs to the sentence, not to the hypothesis, is made by
    "start" or "encode" and never changes; `grows` names the axis that is longer after each step, if there is one.

    A graph that reads the state has an input of that name, and for the next value an output `next_` and that name,
    unless it is shared. "start" and "encode" return it by its own name; a field that they do not return grows and is
    empty at first.
    """

    name: str
    shape: tuple[Size, ...]
    shared: bool = False
    grows: str | None = None


@dataclass(frozen=True)
class Program:
    """All graphs of a model by name, and the state that "start" (or "encode") makes and "step" carries.

    ragged: names of axes whose length differs between the rows of a batch. All others, such as "past" and "time", are
    equally long in all rows. constants: numbers that the host reads, such as the transitions of a CRF.
    """

    graphs: Mapping[str, Graph]
    state: tuple[StateField, ...] = ()
    ragged: frozenset[str] = frozenset()
    constants: Mapping[str, NDArray[Any]] = field(default_factory=dict)


UNARY: Final = (
    "neg",
    "abs",
    "exp",
    "log",
    "sqrt",
    "tanh",
    "sigmoid",
    "relu",
    "erf",
    "gelu",
    "gelu_tanh",
    "silu",
    "sin",
    "cos",
    "not",
)
"""Elementwise; gelu is the exact one, by erf. Of a bool, `not` alone."""

BINARY: Final = ("add", "sub", "mul", "div", "pow", "maximum", "minimum")
"""Elementwise with the broadcasting of numpy on the shapes of a row."""

COMPARE: Final = ("gt", "ge", "lt", "le", "eq", "and", "or")
"""As BINARY, with a bool."""

OPERATIONS: Final[Mapping[str, str]] = {
    **dict.fromkeys((*UNARY, *BINARY, *COMPARE), "elementwise"),
    "where": "(condition, a, b), elementwise with broadcasting",
    "cast": "x as another kind; attribute kind",
    "linear": "x (…, I), weight (O, I)[, bias (O)] -> (…, O)",
    "embed": "ids (…), table (V, E) -> (…, E)",
    "concat": "values, attribute axis -> one; the axis may be named: its length is then the attribute `joined`",
    "slice": "x, attributes axis, start, stop, on an axis of fixed size",
    "reshape": "x, attribute shape: fixed axes are split, joined, made or left out, named axes stay in their order",
    "permute": "x, attribute axes",
    "reduce": "x, attributes function (sum, mean, max), axis; keeps no axis. Of no positions it is zero",
    "softmax": "x, attribute axis; of no positions nothing",
    "cumulate": "x, attributes function (sum, max), axis: the running sum or maximum, this position included",
    "layer_norm": "x (…, D), weight (D), bias (D), attribute epsilon",
    "group_norm": "x (C, H, W), weight (C), bias (C), attributes groups, epsilon",
    "conv2d": "x (C, H, W), weight (C', C, k, k)[, bias], attributes stride, padding",
    "positions": "x (T, …) -> the numbers 0 … T-1 as int (T)",
    "length": "x (T, …) -> T as int ()",
    "first": "x (T, …) -> (…), position 0, zeros where T = 0",
    "last": "x (T, …) -> (…), the last real position, zeros where T = 0",
    "reverse": "x (T, …) -> (T, …) reversed, but for the last `keep` (attribute) positions, which stay",
    "gather": "x (T, …), places (U) int -> (U, …); places () -> (…)",
    "windows": "x (T, D), attributes before, after -> (T, (before + 1 + after)·D): each position and its neighbours in "
    "their order, zeros outside",
    "rotate": "x (T, H, m), places (T) int, frequencies (m/2) -> rotary positions, in the layout of weft.nn's Rotary",
    "attend": "query (Tq, H, m), keys (Tk, H, m), values (Tk, H, v)[, w (m)] -> context (Tq, H, v), weights "
    "(H, Tq, Tk); attributes score (dot, or additive: w·tanh(q + k)), scale, causal (query t sees keys up to "
    "t + Tk - Tq), hard. No keys give zeros",
    "append": "cache (past, …), x (…) -> (now, …): x behind the last position",
    "recur": "x (T, I), states … -> outputs (T, D), last states …; body: x (I), states … -> output, next states …; "
    "attributes reverse (from the last position to the first), cell (the module of which the body was traced)",
}
"""The meaning of each operation; T and U are axes of any size, named or fixed."""
