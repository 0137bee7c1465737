"""Runs a graph in onnxruntime for a batch of rows, and in the plain interpreter for each row alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.export.graph import Graph
from weft.export.graph.evaluate import evaluate
from weft.export.onnx.scope import Weights
from weft.export.onnx.writer import lengths_name, write_graph


def session(graph: Graph, *, ragged: Sequence[str] = (), quantized: bool = False) -> Any:
    import onnxruntime
    from onnx import checker, numpy_helper, shape_inference

    weights = Weights()
    model, used = write_graph(graph, weights, ragged, quantized=quantized)
    for name in used:
        model.graph.initializer.append(numpy_helper.from_array(weights.arrays[name], name))
    if not quantized:
        checker.check_model(model, full_check=True)
        shape_inference.infer_shapes(model, strict_mode=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options)


def axis_length(graph: Graph, row: Mapping[str, Any], axis: str) -> int:
    for value in graph.inputs:
        if axis in value.shape:
            return np.shape(row[value.name])[value.shape.index(axis)]
    raise AssertionError(axis)


def batch(graph: Graph, rows: Sequence[Mapping[str, Any]], ragged: Sequence[str], fill: float = 9) -> dict[str, Any]:
    """Rows padded with numbers that would show."""
    types = {"float": np.float32, "int": np.int64, "bool": np.bool_}
    found: dict[str, Any] = {}
    for value in graph.inputs:
        arrays = [np.asarray(row[value.name], types[value.kind]) for row in rows]
        shape = [max(sizes) for sizes in zip(*(one.shape for one in arrays), strict=True)]
        padded = np.full((len(rows), *shape), 1 if value.kind == "int" else fill, dtype=types[value.kind])
        for row, one in zip(padded, arrays, strict=True):
            row[tuple(slice(size) for size in one.shape)] = one
        found[value.name] = padded
    for axis in ragged:
        if any(axis in value.shape for value in graph.inputs):
            found[lengths_name(axis)] = np.array([axis_length(graph, row, axis) for row in rows])
    return found


def assert_same(graph: Graph, rows: Sequence[Mapping[str, Any]], *, ragged: Sequence[str] = (), **close: Any) -> None:
    """All rows in one batch and each alone give what the interpreter gives for each."""
    run = session(graph, ragged=ragged)
    names = [value.name for value in graph.outputs]
    close = {"rtol": 1e-5, "atol": 1e-5, **close}
    for part in (rows, *([row] for row in rows)):
        found = run.run(names, batch(graph, part, ragged))
        for number, row in enumerate(part):
            wanted = evaluate(graph, row)
            for name, arrays in zip(names, found, strict=True):
                shape = wanted[name].shape
                got = arrays[number][tuple(slice(size) for size in shape)]
                np.testing.assert_allclose(got, wanted[name], err_msg=name, **close)
