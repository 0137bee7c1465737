"""The plain interpreter of a graph in numpy, one row at a time: what each operation means, to compare others with.

It computes in the type of the weights, float32 or float64. Nothing here is fast.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.export.graph.graph import Graph, Node, Size, Value

Array = NDArray[Any]


def evaluate(graph: Graph, inputs: Mapping[str, Any]) -> dict[str, Array]:
    """The outputs by name, for one row of inputs by name."""
    dtype = float_type(graph)
    types = {"float": dtype, "int": np.dtype(np.int64), "bool": np.dtype(np.bool_)}
    given = {value.name: np.asarray(inputs[value.name]).astype(types[value.kind]) for value in graph.inputs}
    found = _run(graph, [given[value.name] for value in graph.inputs], dtype)
    return {value.name: array for value, array in zip(graph.outputs, found, strict=True)}


def float_type(graph: Graph) -> np.dtype[Any]:
    """The type of the floats of a graph: that of its weights."""
    bodies = [node.body for node in graph.nodes if node.body is not None]
    every = [array for each in (graph, *bodies) for array in each.constants.values()]
    wide = any(array.dtype == np.float64 for array in every)
    return np.dtype(np.float64 if wide else np.float32)


def _run(graph: Graph, inputs: list[Array], dtype: np.dtype[Any]) -> list[Array]:
    known: dict[Value, Array] = dict(zip(graph.inputs, inputs, strict=True))
    for value, array in graph.constants.items():
        known[value] = array.astype(dtype) if value.kind == "float" else array
    sizes: dict[str, int] = {}
    for value, array in known.items():
        _note_sizes(value, array, sizes)
    for node in graph.nodes:
        arrays = [known[value] for value in node.inputs]
        if node.op == "recur":
            results = _recur(node, arrays, dtype)
        elif node.op == "reshape":
            results = [arrays[0].reshape([_size(size, sizes) for size in node.attributes["shape"]])]
        elif node.op == "cast":
            kinds: dict[str, Any] = {"float": dtype, "int": np.int64, "bool": np.bool_}
            results = [arrays[0].astype(kinds[node.attributes["kind"]])]
        else:
            found = FUNCTIONS[node.op](*arrays, **node.attributes)
            results = list(found) if isinstance(found, tuple) else [found]
        for value, array in zip(node.outputs, results, strict=True):
            known[value] = np.asarray(array, dtype if value.kind == "float" else None)
            _note_sizes(value, known[value], sizes)
    return [known[value] for value in graph.outputs]


def _note_sizes(value: Value, array: Array, sizes: dict[str, int]) -> None:
    """Record the lengths of named axes; all else must be as the graph says."""
    assert len(value.shape) == array.ndim, (value, array.shape)
    for size, real in zip(value.shape, array.shape, strict=True):
        assert real == (sizes.setdefault(size, real) if isinstance(size, str) else size), (value, array.shape)


def _size(size: Size, sizes: dict[str, int]) -> int:
    return sizes[size] if isinstance(size, str) else size


def _recur(node: Node, arrays: list[Array], dtype: np.dtype[Any]) -> list[Array]:
    assert node.body is not None
    x, *states = arrays
    width = node.outputs[0].shape[1:]
    outputs = np.zeros((len(x), *(int(size) for size in width)), dtype)
    for t in reversed(range(len(x))) if node.attributes["reverse"] else range(len(x)):
        outputs[t], *states = _run(node.body, [x[t], *states], dtype)
    return [outputs, *states]


def _erf(x: Array) -> Array:
    found: Array = np.vectorize(math.erf, otypes=[x.dtype])(x)
    return found


def _sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    found = x @ weight.T
    return found if bias is None else found + bias


def _softmax(x: Array, axis: int) -> Array:
    if x.shape[axis] == 0:
        return x
    small = np.exp(x - x.max(axis, keepdims=True))
    found: Array = small / small.sum(axis, keepdims=True)
    return found


def _reduce(x: Array, function: str, axis: int) -> Array:
    if x.shape[axis] == 0:
        return np.zeros(np.delete(x.shape, axis), x.dtype)
    functions: dict[str, Callable[..., Array]] = {"sum": np.sum, "mean": np.mean, "max": np.max}
    return functions[function](x, axis=axis)


def _cumulate(x: Array, function: str, axis: int) -> Array:
    return np.cumsum(x, axis) if function == "sum" else np.maximum.accumulate(x, axis)


def _normalise(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    mean = x.mean(axes, keepdims=True)
    variance = np.square(x - mean).mean(axes, keepdims=True)
    found: Array = (x - mean) / np.sqrt(variance + epsilon)
    return found


def _layer_norm(x: Array, weight: Array, bias: Array, epsilon: float) -> Array:
    return _normalise(x, (-1,), epsilon) * weight + bias


def _group_norm(x: Array, weight: Array, bias: Array, groups: int, epsilon: float) -> Array:
    grouped = _normalise(x.reshape(groups, -1), (1,), epsilon).reshape(x.shape)
    return grouped * weight[:, None, None] + bias[:, None, None]


def _conv2d(x: Array, weight: Array, bias: Array | None = None, *, stride: int, padding: int) -> Array:
    outputs, _, kernel, _ = weight.shape
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    height, width = ((side - kernel) // stride + 1 for side in x.shape[1:])
    found = np.zeros((outputs, height, width), x.dtype)
    for row in range(height):
        for column in range(width):
            top, left = row * stride, column * stride
            patch = x[:, top : top + kernel, left : left + kernel]
            found[:, row, column] = np.tensordot(weight, patch, 3)
    return found if bias is None else found + bias[:, None, None]


def _end(x: Array, place: int) -> Array:
    return x[place] if len(x) else np.zeros(x.shape[1:], x.dtype)


def _reverse(x: Array, keep: int) -> Array:
    turned = max(0, len(x) - keep)
    return np.concatenate([x[:turned][::-1], x[turned:]])


def _windows(x: Array, before: int, after: int) -> Array:
    padded = np.pad(x, ((before, after), (0, 0)))
    width = before + 1 + after
    return np.concatenate([padded[shift : shift + len(x)] for shift in range(width)], axis=1)


def _rotate(x: Array, places: Array, frequencies: Array) -> Array:
    angles = (places[:, None] * frequencies)[:, None]
    cosine, sine = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    first, second = np.split(x, 2, axis=-1)
    return np.concatenate([first * cosine - second * sine, first * sine + second * cosine], axis=-1)


def _attend(
    query: Array,
    keys: Array,
    values: Array,
    weight: Array | None = None,
    *,
    score: str,
    scale: float,
    causal: bool,
    hard: bool,
) -> tuple[Array, Array]:
    if score == "dot":
        scores = np.einsum("qhm,khm->hqk", query, keys) * query.dtype.type(scale)
    else:
        assert weight is not None
        scores = np.tanh(query[:, None] + keys[None]) @ weight * query.dtype.type(scale)
        scores = scores.transpose(2, 0, 1)
    queries, count = scores.shape[1:]
    may = np.ones((queries, count), np.bool_)
    if causal:
        may = np.tril(may, count - queries)
    scores = np.where(may, scores, np.finfo(scores.dtype).min)
    weights = scores
    if count:
        best = np.arange(count) == scores.argmax(-1)[..., None]
        weights = np.where(may, best if hard else _softmax(scores, -1), 0).astype(scores.dtype)
    return np.einsum("hqk,khv->qhv", weights, values), weights


def _gelu_tanh(x: Array) -> Array:
    found: Array = 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return found


FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "sigmoid": _sigmoid,
    "relu": lambda x: np.maximum(x, 0),
    "erf": _erf,
    "gelu": lambda x: 0.5 * x * (1 + _erf(x / math.sqrt(2))),
    "gelu_tanh": _gelu_tanh,
    "silu": lambda x: x * _sigmoid(x),
    "sin": np.sin,
    "cos": np.cos,
    "not": np.logical_not,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "where": np.where,
    "linear": _linear,
    "embed": lambda ids, table: table[ids],
    "concat": lambda *values, axis, joined: np.concatenate(values, axis),
    "slice": lambda x, axis, start, stop: x[(slice(None),) * axis + (slice(start, stop),)],
    "permute": lambda x, axes: x.transpose(axes),
    "reduce": _reduce,
    "softmax": _softmax,
    "cumulate": _cumulate,
    "layer_norm": _layer_norm,
    "group_norm": _group_norm,
    "conv2d": _conv2d,
    "positions": lambda x: np.arange(len(x)),
    "length": lambda x: np.array(len(x)),
    "first": lambda x: _end(x, 0),
    "last": lambda x: _end(x, -1),
    "reverse": _reverse,
    "gather": lambda x, places: x[places],
    "windows": _windows,
    "rotate": _rotate,
    "attend": _attend,
    "append": lambda cache, x: np.concatenate([cache, x]),
}
"""The function of each operation, but for those that need the whole graph: recur, reshape and cast."""
