"""The files of an exported folder: graphs with their weights, arrays, tokenizers, facts, and the manifest of all."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from weft.export.graph import Program
from weft.export.onnx.runner.folder import MANIFEST, WEIGHTS
from weft.export.onnx.runner.graphs import SUFFIX
from weft.export.onnx.runner.runner import CONSTANT, FORMAT_VERSION
from weft.export.onnx.scope import Weights
from weft.export.onnx.writer import write_graph
from weft.run.folder.files import write_file, write_json

MAX_INLINE_BYTES: Final = 1 << 20
"""Weights that stay in the files of graphs; larger ones are in one file, which all graphs share."""

ALIGNMENT: Final = 64


def write_graphs(program: Program, folder: Path, *, quantized: bool) -> dict[str, Any]:
    """Write each graph as NAME.onnx; returns the inputs and outputs of each."""
    weights = Weights()
    models = {
        name: write_graph(graph, weights, program.ragged, quantized=quantized)
        for name, graph in program.graphs.items()
        if graph.outputs  # a state may have no field that is there before the first token
    }
    total = sum(weights.arrays[name].nbytes for _, used in models.values() for name in used)
    places = {} if total <= MAX_INLINE_BYTES else _write_weights(weights, models, folder)
    about = {}
    for name, (model, used) in models.items():
        for weight in used:
            array = weights.arrays[weight]
            tensor = (
                _external(weight, array, places[weight]) if weight in places else numpy_helper.from_array(array, weight)
            )
            model.graph.initializer.append(tensor)
        write_file(folder / (name + SUFFIX), model.SerializeToString(deterministic=True))
        graph = model.graph
        about[name] = {"inputs": [one.name for one in graph.input], "outputs": [one.name for one in graph.output]}
    return about


def _write_weights(
    weights: Weights, models: Mapping[str, tuple[ModelProto, list[str]]], folder: Path
) -> dict[str, int]:
    """Write the arrays that graphs use one after another; returns where each begins."""
    names = dict.fromkeys(name for _, used in models.values() for name in used)
    places, at = dict[str, int](), 0
    for name in names:
        at += -at % ALIGNMENT
        places[name], at = at, at + weights.arrays[name].nbytes

    def fill(path: Path) -> None:
        with path.open("wb") as file:
            for name, place in places.items():
                file.write(b"\0" * (place - file.tell()))
                file.write(weights.arrays[name].tobytes())

    write_file(folder / WEIGHTS, fill)
    return places


def _external(name: str, array: NDArray[Any], place: int) -> TensorProto:
    """A weight that lies in the file of weights."""
    tensor = TensorProto(name=name, data_type=helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape)
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": WEIGHTS, "offset": place, "length": array.nbytes}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def write_constants(program: Program, folder: Path) -> list[str]:
    """Write the arrays that the host reads; returns their names."""
    for name, array in program.constants.items():
        content = io.BytesIO()
        np.save(content, array, allow_pickle=False)
        write_file(folder / CONSTANT.format(name), content.getvalue())
    return sorted(program.constants)


def describe(program: Program) -> dict[str, Any]:
    """The state that the graphs carry, and the ragged axes."""
    state = [
        {"name": one.name, "shape": list(one.shape), "shared": one.shared, "grows": one.grows} for one in program.state
    ]
    return {"state": state, "ragged": sorted(program.ragged)}


def write_manifest(folder: Path) -> None:
    """List every file with its size and hash."""
    files = {}
    for path in sorted(folder.iterdir()):
        if path.name != MANIFEST:
            content = path.read_bytes()
            files[path.name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    write_json(folder / MANIFEST, {"format_version": FORMAT_VERSION, "files": files})
