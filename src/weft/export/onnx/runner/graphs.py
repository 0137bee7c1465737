"""The ONNX graphs of a folder as functions from arrays to arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.errors import ConfigError, RunError, shorten
from weft.export.onnx.runner.folder import AGAIN, WEIGHTS, ExportedFiles
from weft.export.onnx.runner.protobuf import External, check_model
from weft.extras import EXTRAS

Array = NDArray[Any]
Arrays = dict[str, Array]
SUFFIX: Final = ".onnx"
QUIET: Final = 4
"""onnxruntime's level of messages: none. It prints errors with bytes of the file, and raises them as well."""


class Field(NamedTuple):
    """A tensor of the state, as `weft.export.graph.StateField`."""

    name: str
    shape: tuple[int | str, ...]
    shared: bool
    grows: str | None


def load_onnxruntime() -> Any:
    try:
        import onnxruntime
    except ImportError:
        raise ConfigError("needs onnxruntime", where="Runner", cure=EXTRAS["onnx"].install) from None
    return onnxruntime


class Graphs:
    """The graphs of a folder, each a session that is made when it is first used; weights are in memory once."""

    def __init__(self, files: ExportedFiles, about: Mapping[str, Any], *, threads: int, providers: list[str]) -> None:
        self.files, self.threads = files, threads
        self.runtime = load_onnxruntime()
        self.providers = providers
        self.ragged = frozenset(about["ragged"])
        self.names = list(about["graphs"])
        self.fields = tuple(
            Field(one["name"], tuple(one["shape"]), one["shared"], one["grows"]) for one in about["state"]
        )
        self.models: dict[str, tuple[bytes, list[External]]] = {}
        for name in self.names:
            content = files.read(name + SUFFIX)
            self.models[name] = content, check_model(content, str(files.folder / (name + SUFFIX)))
        self.weights = self._weights()
        self._sessions: dict[str, Any] = {}
        self._values: dict[tuple[int, str, tuple[int, ...]], Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.models

    @property
    def grows(self) -> bool:
        """Whether a field of the state is longer after each step; then all rows have read as many tokens."""
        return any(field.grows for field in self.fields)

    def _weights(self) -> bytes:
        """The file of weights, after a check of all places in it."""
        found = [weight for _, weights in self.models.values() for weight in weights]
        if not found:
            return b""
        content = self.files.read(WEIGHTS)
        for one in found:
            size = math.prod(one.shape) * np.dtype(one.dtype).itemsize
            inside = 0 <= one.offset <= one.offset + one.length <= len(content)
            if one.location != WEIGHTS or not inside or one.length != size or min(one.shape, default=0) < 0:
                what = f"the weight {shorten(ascii(one.name))} lies outside {WEIGHTS}"
                raise RunError(what, where=str(self.files.folder), cure=AGAIN)
        return content

    def session(self, name: str) -> Any:
        """The session of a graph."""
        if name not in self._sessions:
            content, external = self.models[name]
            options = self.runtime.SessionOptions()
            options.intra_op_num_threads, options.inter_op_num_threads = self.threads, 1
            options.log_severity_level = QUIET
            values = [self._value(weight) for weight in external]
            try:
                if external:  # of which none may have the name of another
                    options.add_external_initializers([weight.name for weight in external], values)
                # A second attempt with the CPU alone would print the error, which quotes bytes of the file.
                again = {"enable_fallback": self.providers != ["CPUExecutionProvider"]}
                self._sessions[name] = self.runtime.InferenceSession(
                    content, options, providers=self.providers, **again
                )
            except Exception as error:  # the library raises nothing more specific
                raise self._wrong(name, str(error)) from None
        return self._sessions[name]

    def _value(self, weight: External) -> Any:
        """A weight as onnxruntime takes it, in the memory of the file."""
        key = weight.offset, weight.dtype, weight.shape
        if key not in self._values:
            count = math.prod(weight.shape)
            array = np.frombuffer(self.weights, dtype=weight.dtype, count=count, offset=weight.offset)
            self._values[key] = self.runtime.OrtValue.ortvalue_from_numpy(array.reshape(weight.shape))
        return self._values[key]

    def run(self, name: str, inputs: Mapping[str, Array]) -> Arrays:
        """Run a graph; inputs that it does not have are left out."""
        session = self.session(name)
        wanted = [one.name for one in session.get_inputs()]
        names = [one.name for one in session.get_outputs()]
        if missing := [key for key in wanted if key not in inputs]:
            raise self._wrong(name, f"it wants {missing[0]}")
        try:
            found = session.run(names, {key: np.ascontiguousarray(inputs[key]) for key in wanted})
        except Exception as error:  # the library raises nothing more specific
            raise self._wrong(name, str(error)) from None
        return dict(zip(names, found, strict=True))

    def _wrong(self, name: str, error: str) -> RunError:
        where, what = str(self.files.folder / (name + SUFFIX)), ascii(error.partition("\n")[0])[1:-1]
        return RunError(f"cannot be run: {shorten(what)}", where=where, cure=AGAIN)


def providers_of(device: str) -> list[str]:
    """The execution providers: those of a GPU where there are any and they are wanted, then the CPU."""
    runtime = load_onnxruntime()
    found = [
        name for name in ("CUDAExecutionProvider", "ROCMExecutionProvider") if name in runtime.get_available_providers()
    ]
    if device == "cuda" and not found:
        cure = 'pip install onnxruntime-gpu, or device = "cpu"'
        raise ConfigError("onnxruntime has no provider for a GPU", where='device = "cuda"', cure=cure)
    return [*(found if device != "cpu" else []), "CPUExecutionProvider"]


def pad(rows: Sequence[Any], *, kind: Any = np.int64) -> tuple[Array, Array]:
    """Rows of different lengths -> padded with zeros (B, T, …), and their lengths (B)."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    tail = np.shape(rows[0])[1:] if len(rows) else ()
    found = np.zeros((len(rows), int(lengths.max(initial=0)), *tail), dtype=kind)
    for place, row in enumerate(rows):
        found[place, : len(row)] = row
    return found, lengths
