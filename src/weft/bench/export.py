"""`weft bench export`: a recurrence in onnxruntime, as weft writes it and as torch exports its own layer."""

from __future__ import annotations

import io
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from onnx import numpy_helper
from torch import nn

from weft.bench.timing import Contender, time_in_turn
from weft.export.graph.build import Builder
from weft.export.graph.lower_recurrent import first_states, run
from weft.export.graph.weights import Weights as Arrays
from weft.export.onnx.runner.graphs import load_onnxruntime
from weft.export.onnx.scope import Weights
from weft.export.onnx.writer import lengths_name, write_graph
from weft.nn import RNN

STEPS: Final = 64
SIZE: Final = 256
OPSET: Final = 17
"""The version by which torch exports its layers without other packages."""

LAYERS: Final[Mapping[str, tuple[str, Any]]] = {
    "LSTM": ("lstm", nn.LSTM),
    "GRU": ("gru_reset_after", nn.GRU),
}
"""weft's cell and torch's layer of the same equations."""

OWN_LOOP: Final = "mut1"
"""A cell without an operator of ONNX, for comparison."""


@dataclass(frozen=True)
class ExportFigures:
    """Seconds of each contender for a layer and so many rows."""

    layer: str
    rows: int
    seconds: Mapping[str, float]

    def tree(self) -> dict[str, Any]:
        return {"layer": self.layer, "rows": self.rows, "seconds": dict(self.seconds)}


def measure_export(layer: str, rows: int, *, threads: int, rounds: int) -> ExportFigures:
    """Run a layer of 256 numbers over 64 steps: weft's graph in float32 and int8, and torch's export."""
    cell = LAYERS[layer][0] if layer in LAYERS else layer
    graphs = {"weft": _ours(cell)}
    if layer == "LSTM":
        graphs["weft int8"] = _ours(cell, quantized=True)
    if layer in LAYERS:
        graphs["torch"] = _theirs(LAYERS[layer][1])
    x = np.random.default_rng(0).standard_normal((rows, STEPS, SIZE)).astype(np.float32)
    inputs = {"x": x, lengths_name("source"): np.full(rows, STEPS)}
    contenders = {name: Contender(_call(graph, inputs, threads)) for name, graph in graphs.items()}
    found = time_in_turn(contenders, rounds=rounds, device=torch.device("cpu"), calls=1)
    return ExportFigures(layer, rows, found)


def _call(graph: bytes, inputs: Mapping[str, Any], threads: int) -> Any:
    runtime = load_onnxruntime()
    options = runtime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = runtime.InferenceSession(graph, options)
    given = {one.name: inputs[one.name] for one in session.get_inputs()}
    return lambda: session.run(["y"], given)


def _ours(cell: str, *, quantized: bool = False) -> bytes:
    torch.manual_seed(0)
    rnn, build = RNN(cell, SIZE, SIZE).eval(), Builder("layer", Arrays())
    outputs, _ = run(build, rnn, build.input("x", ("source", SIZE)), first_states(build, rnn))
    weights = Weights()
    model, used = write_graph(build.graph(y=outputs), weights, ["source"], quantized=quantized)
    model.graph.initializer.extend(numpy_helper.from_array(weights.arrays[name], name) for name in used)
    return bytes(model.SerializeToString())


def _theirs(layer: Any) -> bytes:
    torch.manual_seed(0)
    network: Any = layer(SIZE, SIZE, batch_first=True).eval()
    content: Any = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            network,
            (torch.zeros(2, STEPS, SIZE),),
            content,
            dynamo=False,
            input_names=["x"],
            output_names=["y"],
            dynamic_axes={"x": {0: "rows", 1: "steps"}},
            opset_version=OPSET,
        )
    return bytes(content.getvalue())


def tabulate_export(found: Sequence[ExportFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines."""
    names = ("weft", "torch", "weft int8")
    lines = [
        [one.layer, f"{one.rows}", *(f"{1000 * one.seconds[n]:.2f}" if n in one.seconds else "" for n in names)]
        for one in found
    ]
    return ["layer", "rows", "weft ms", "torch's export ms", "weft int8 ms"], lines
