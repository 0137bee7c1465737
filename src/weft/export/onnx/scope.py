"""The nodes of an ONNX graph while they are written, and the weights that all graphs of a program share.

Every tensor of a row gets a first axis of rows, B, unless it is the same for all rows, as weights and positions are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper, numpy_helper

from weft.export.graph.graph import Kind, Size

OPSET: Final = 20
IR_VERSION: Final = 9
"""The versions of the format that onnxruntime 1.20 and all later ones run."""

ELEMENTS: Final = {"float": TensorProto.FLOAT, "int": TensorProto.INT64, "bool": TensorProto.BOOL}
ARRAYS: Final[dict[Kind, Any]] = {"float": np.float32, "int": np.int64, "bool": np.bool_}
LOWEST: Final = float(np.finfo(np.float32).min)


class Tensor(NamedTuple):
    """A tensor of the ONNX graph: its name, the shape and kind that it has for one row, and whether it has an axis of
    rows before them."""

    name: str
    shape: tuple[Size, ...]
    kind: Kind
    batched: bool


class Weights:
    """The arrays of a program by name. The same array has one name, and so has what is made of it."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray[Any]] = {}
        self._names: dict[Any, str] = {}
        self._kept: list[Any] = []
        """Objects whose addresses are keys, so that no other takes their place."""

    def name(self, array: NDArray[Any]) -> str:
        return self.made(array, "", lambda: array)

    def made(self, source: Any, role: str, make: Callable[[], NDArray[Any]]) -> str:
        """The name of an array that is made of `source` once, for this role."""
        key = (id(source), role)
        if key not in self._names:
            self._kept.append(source)
            array = make()
            kind: Any = array.dtype
            if array.dtype not in (np.int8, np.uint8, np.int32):
                kind = np.bool_ if array.dtype == np.bool_ else np.float32 if array.dtype.kind == "f" else np.int64
            self._names[key] = f"weight_{len(self.arrays)}"
            self.arrays[self._names[key]] = np.ascontiguousarray(array, dtype=kind).reshape(array.shape)
        return self._names[key]


class Scope:
    """The nodes of one graph, or of the body of a loop, whose `outer` scope it can read."""

    def __init__(self, weights: Weights, outer: Scope | None = None) -> None:
        self.weights, self.outer = weights, outer
        self.nodes: list[NodeProto] = []
        self.used: dict[str, None] = outer.used if outer else {}
        """Names of weights that this graph and its bodies use."""
        self.small: dict[str, TensorProto] = outer.small if outer else {}
        """Shapes, axes and numbers, which stay in the graph."""
        self._counts: dict[str, int] = outer._counts if outer else {}
        self._made: dict[Any, str] = {}

    def fresh(self, name: str) -> str:
        """A name that no other tensor of the graph has."""
        self._counts[name] = count = self._counts.get(name, 0) + 1
        return f"{name}_{count}"

    def add(self, op: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> str:
        """Add a node; returns the name of its first output."""
        return self.add_many(op, *inputs, outputs=outputs, domain=domain, **attributes)[0]

    def add_many(self, op: str, *inputs: str, outputs: int, domain: str = "", **attributes: Any) -> list[str]:
        """Add a node with several outputs."""
        names = [self.fresh(op.lower()) for _ in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, self.fresh(f"node_{op}"), domain=domain, **attributes))
        return names

    def once(self, key: Any, make: Callable[[], str]) -> str:
        """Return the value of this key from here or an outer scope, or make it."""
        scope: Scope | None = self
        while scope is not None:
            if key in scope._made:
                return scope._made[key]
            scope = scope.outer
        self._made[key] = made = make()
        return made

    def weight(self, array: NDArray[Any]) -> str:
        return self.use(self.weights.name(array))

    def use(self, name: str) -> str:
        """A weight by its name in `weights`."""
        self.used[name] = None
        return name

    def numbers(self, values: Sequence[int]) -> str:
        """Ints along one axis, such as a shape."""
        return self.constant(np.array(values, dtype=np.int64))

    def number(self, value: float) -> str:
        return self.constant(np.array(value, dtype=np.float32))

    def constant(self, array: NDArray[Any]) -> str:
        """A small array; equal ones are one."""
        name = f"number_{array.dtype}_{'x'.join(map(str, array.shape))}_{array.tobytes().hex()}"
        if len(name) > 80:
            name = f"number_{hashlib.sha256(name.encode()).hexdigest()[:24]}"
        if name not in self.small:
            self.small[name] = numpy_helper.from_array(array, name)
        return name
