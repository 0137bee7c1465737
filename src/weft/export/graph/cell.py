"""One step of a recurrent cell as the body of a loop, from the trace that the engine makes of it.

The trace holds torch's operations on a batch. Here each tensor stands without its axis of rows; what depends on the
parameters alone is computed now and becomes a constant.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from weft.errors import ConfigError
from weft.export.graph.build import Builder
from weft.export.graph.graph import Graph, Value
from weft.export.graph.weights import Weights
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.engine.known import dtype_of
from weft.nn.recurrent.engine.trace import BY_VALUE, Untraceable, item, trace
from weft.nn.state import leaves_of

Part = Any
"""A value of one row, a tensor that is the same for all rows, a number, or a list of such."""


def lower_cell(cell: Cell, weights: Weights) -> Graph:
    """x (I), the state's tensors -> output, the next state's. A ConfigError says why a cell has no such graph."""
    try:
        return _Lowering(cell, weights).graph()
    except Untraceable as error:
        what = f"the cell {type(cell).__name__} cannot be written as a graph: {error}"
        cure = "write its step in elementwise functions and linear maps of x and the state"
        raise ConfigError(what, where="cell", cure=cure) from error


class _Lowering:
    """The parts that the nodes of a trace stand for."""

    def __init__(self, cell: Cell, weights: Weights) -> None:
        self.dtype = dtype_of(cell)
        self.trace = trace(cell, self.dtype)
        self.build = Builder("step", weights, dtype=str(self.dtype).removeprefix("torch."))
        self.fixed: dict[Value, Tensor] = {}
        """The tensors that constants of a row were made from."""
        tensors = dict(cell.named_parameters()) | dict(cell.named_buffers())
        self.parts: dict[fx.Node, Part] = {
            self.trace.parameters[name]: tensor.detach() for name, tensor in tensors.items()
        }
        names = ["x", *(f"state_{number}" for number in range(len(self.trace.state)))]
        for name, node in zip(names, [self.trace.x, *self.trace.state], strict=True):
            self.parts[node] = self.build.input(name, shape_of(node))

    def graph(self) -> Graph:
        for node in self.trace.graph.nodes:
            if node.op == "call_function":
                self.parts[node] = self._lower(node)
        ends = [self.value(self.parts[node], shape_of(node)) for node in (self.trace.output, *self.trace.after)]
        names = ["output", *(f"next_{number}" for number in range(len(ends) - 1))]
        return self.build.graph(**dict(zip(names, ends, strict=True)))

    def _lower(self, node: fx.Node) -> Part:
        from weft.export.graph.cell_operations import OPERATIONS

        if node.target is item:
            parts, number = node.args
            assert isinstance(parts, fx.Node)
            return self._of_row(node, self.parts[parts][number])
        args, kwargs = self._given(node.args), self._given(node.kwargs)
        if not any(isinstance(self.parts[used], Value | list) for used in node.all_input_nodes):
            assert callable(node.target)
            with torch.no_grad():
                return self._of_row(node, node.target(*args, **kwargs))
        if node.target not in OPERATIONS:
            raise Untraceable(f"torch's {name_of(node)} has no counterpart in a graph")
        return OPERATIONS[node.target](self, node, *args, **kwargs)

    def _given(self, arguments: Any) -> Any:
        """Arguments with parts in the place of nodes."""
        return fx.node.map_arg(arguments, lambda used: self.parts[used])

    def _of_row(self, node: fx.Node, part: Part) -> Part:
        """A tensor with rows that was made without any input: what one row of it holds."""
        if not isinstance(part, Tensor) or not node.meta.get("rows"):
            return part
        axis = row_axis(node)
        one = part.select(axis, 0)
        if not torch.equal(one.unsqueeze(axis).expand_as(part), part):
            raise Untraceable(BY_VALUE)
        value = self.build.constant(one.contiguous())
        self.fixed[value] = one.contiguous()
        return value

    def value(self, part: Part, shape: tuple[int, ...] | None = None) -> Value:
        """A part as a value of the graph, spread over a shape if it is given."""
        if isinstance(part, float):
            part = self.build.number(part)
        elif not isinstance(part, Value):
            tensor = part if isinstance(part, Tensor) else torch.tensor(part)
            part = self.build.constant(tensor.to(self.dtype) if tensor.is_floating_point() else tensor)
        assert isinstance(part, Value)
        if shape is None or part.shape == shape:
            return part
        assert part.kind == "float", part
        return self.build.mul(part, self.build.constant(torch.ones(shape, dtype=self.dtype)))


def shape_of(node: fx.Node) -> tuple[int, ...]:
    """The shape of one row of a node's tensor."""
    shape, rows = node.meta["shape"], node.meta["rows"]
    return tuple(size for axis, size in enumerate(shape) if axis not in rows)


def row_axis(node: fx.Node) -> int:
    """The axis of the rows."""
    rows: tuple[int, ...] = node.meta["rows"]
    if len(rows) != 1:
        raise Untraceable(f"{name_of(node)} mixes the rows of a batch" if rows else BY_VALUE)
    return rows[0]


def name_of(node: fx.Node) -> str:
    return getattr(getattr(node.target, "overloadpacket", node.target), "__name__", str(node.target))


def leaf_names(cell: Cell, prefix: str) -> list[str]:
    """A name for each tensor of a cell's state: its field, where it has fields."""
    state = cell.zero_state(1, next(cell.parameters(), torch.empty(0)))
    fields = getattr(type(state), "_fields", None)
    leaves = leaves_of(state)
    if fields is not None and len(fields) == len(leaves):
        return [f"{prefix}_{name}" for name in fields]
    return [f"{prefix}_h"] if len(leaves) == 1 else [f"{prefix}_{number}" for number in range(len(leaves))]
