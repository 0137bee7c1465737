"""Trace: one step of a cell, recorded as a graph of torch operations.

The step runs twice, on a few rows of numbers, while every operation below autograd is written down. What a cell does in
Python (choices by an option, loops over gates) happens then and leaves no trace; a choice that depends on a tensor's
values cannot be recorded and is refused, as is anything random or in place. Such a cell runs on the reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, Self

import torch
from torch import Tensor, fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map_only

from weft.nn.recurrent.attending import STEP_RECORDER, AttendingCell, Source
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.own import check_step
from weft.nn.state import leaves_of, map_state

aten = torch.ops.aten

SOURCE_STEPS: Final = 7
"""Length of the source that a step is traced with."""

BY_VALUE: Final = "what it does depends on the values of a tensor, or on how many rows there are"


class Untraceable(Exception):
    """Why the engine cannot run a cell; the message completes "not by the engine: ..."."""


class BatchSize(int):
    """A size in a graph that is the number of rows, whatever that is."""


class Trace(NamedTuple):
    """A step as a graph: placeholders x, the state's tensors, the parameters and, of a cell that attends, the keys,
    values and lengths of its source; outputs the output and the next state.

    Sizes that are the number of rows are marked as `BatchSize`.
    """

    graph: fx.Graph
    x: fx.Node
    state: list[fx.Node]
    parameters: dict[str, fx.Node]
    output: fx.Node
    after: list[fx.Node]
    source: list[fx.Node]


def trace(cell: Cell, dtype: torch.dtype) -> Trace:
    """Record cell.step; raises Untraceable with the reason.

    It is recorded twice, with different numbers of different values: what differs between the two graphs is the number
    of rows, or depends on values, which no graph can hold.
    """
    with torch.inference_mode(False):  # in which operations are not taken apart
        first, second = _record(cell, dtype, 3), _record(cell, dtype, 5)
    _mark_batch(first.graph, second.graph, (3, 5))
    return first


def _record(cell: Cell, dtype: torch.dtype, rows: int) -> Trace:
    tensors = dict(cell.named_parameters()) | dict(cell.named_buffers())
    device = next(iter(tensors.values())).device if tensors else torch.device("cpu")

    def values(shape: torch.Size) -> Tensor:
        return torch.linspace(-1.0 + 0.03 * rows, 0.1 * rows, shape.numel(), device=device).view(shape).to(dtype)

    x = values(torch.Size((rows, cell.input_size)))
    state = map_state(lambda zero: values(zero.shape), cell.zero_state(rows, x))
    source = [_source(cell, values, rows, device)] if isinstance(cell, AttendingCell) else []
    recorder = Recorder(tensors, x, leaves_of(state), [part for sample in source for part in sample])
    with torch.no_grad(), torch.autocast(device.type, enabled=False), recorder:
        found = cell.step(x, state, *source)
    output, after = check_step(cell, found, rows)
    if tree_flatten(after)[1] != tree_flatten(state)[1]:
        raise Untraceable("the state it returns has another structure than the one it is given")
    shapes = [(part.shape, part.dtype) for part in leaves_of(state)]
    if shapes != [(part.shape, part.dtype) for part in leaves_of(after)]:
        raise Untraceable("the state it returns has other shapes or types than the one it is given")
    outputs = [recorder.node(part) for part in (output, *leaves_of(after))]
    if any(len(shape) != 2 for shape, _ in shapes):
        raise Untraceable("its state is not a matrix with a row for each row of the batch")
    recorder.graph.output(tuple(outputs))
    return Trace(
        recorder.graph, recorder.x, recorder.state, recorder.parameters, outputs[0], outputs[1:], recorder.source
    )


def _source(cell: AttendingCell, values: Callable[[torch.Size], Tensor], rows: int, device: torch.device) -> Source:
    """Numbers for the cell to attend to."""
    keys, content = (torch.Size((rows, SOURCE_STEPS, size)) for size in (cell.key_size, cell.value_size))
    return Source(values(keys), values(content), torch.full((rows,), SOURCE_STEPS, device=device))


def _mark_batch(graph: fx.Graph, other: fx.Graph, rows: tuple[int, int]) -> None:
    """Find the sizes that are the number of rows, and of each tensor the axis of the rows, its meta "rows"; raises
    Untraceable where the graphs differ in anything else."""
    if len(graph.nodes) != len(other.nodes):
        raise Untraceable(BY_VALUE)
    same = dict(zip(other.nodes, graph.nodes, strict=True))

    def mark(mine: Any, its: Any) -> Any:
        if isinstance(mine, fx.Node):
            if same.get(its) is not mine:
                raise Untraceable(BY_VALUE)
            return mine
        if isinstance(mine, (list, tuple)) and type(mine) is type(its) and len(mine) == len(its):
            pairs = zip(mine, its, strict=True)
            return type(mine)(BatchSize(a) if (a, b) == rows else mark(a, b) for a, b in pairs)
        if mine != its and mine == mine:
            raise Untraceable(BY_VALUE)
        return mine

    for other_node, node in same.items():
        if "shape" in node.meta:
            node.meta["rows"] = _row_axes(node.meta["shape"], other_node.meta["shape"])
        if node.target != other_node.target and node.op == "call_function":
            raise Untraceable(BY_VALUE)
        node.args = tuple(mark(a, b) for a, b in zip(node.args, other_node.args, strict=True))
        node.kwargs = {name: mark(value, other_node.kwargs.get(name)) for name, value in node.kwargs.items()}


def _row_axes(mine: tuple[int, ...], its: tuple[int, ...]) -> tuple[int, ...]:
    """The axes whose size depends on the number of rows."""
    return tuple(axis for axis, (a, b) in enumerate(zip(mine, its, strict=True)) if a != b)


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes each operation into a graph; a tensor is known by its identity, so all of them are kept alive.

    With `strict` it raises Untraceable for what no graph of a step can hold. Without, it records the one call that it
    sees, whatever that depends on: enough to say where each value came from.
    """

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Else torch loads its compiler at the first operation, which takes longer than all else in a first call."""
        return False

    def __init__(
        self,
        tensors: dict[str, Tensor],
        x: Tensor,
        state: list[Tensor],
        source: Sequence[Tensor] = (),
        *,
        strict: bool = True,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.graph, self.strict = fx.Graph(), strict
        self.values: dict[fx.Node, Tensor] = {}
        self._nodes: dict[int, fx.Node] = {}
        self.x = self._place("x", x)
        self.state = [self._place(f"state_{number}", part) for number, part in enumerate(state)]
        self.parameters = {name: self._place("p_" + name.replace(".", "_"), tensor) for name, tensor in tensors.items()}
        self.source = [self._place(f"source_{number}", part) for number, part in enumerate(source)]
        self._paused = False

    def __enter__(self) -> Self:
        self._token = STEP_RECORDER.set(self)
        return super().__enter__()  # type: ignore[no-any-return, no-untyped-call]

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        STEP_RECORDER.reset(self._token)

    def record(self, function: Callable[..., Tensor], *args: Any) -> Tensor:
        """Call a function of ours, and write it into the graph as one operation."""
        called = self.graph.call_function(function, tree_map_only(Tensor, self.node, args))
        self._paused = True
        try:
            result = function(*args)
        finally:
            self._paused = False
        self._keep(result, called)
        return result

    def node(self, tensor: Tensor) -> fx.Node:
        if id(tensor) not in self._nodes:
            if self.strict:
                raise Untraceable("it uses a tensor that is neither a parameter nor a buffer")
            return self._place("constant", tensor)
        return self._nodes[id(tensor)]

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if self._paused:
            return func(*args, **(kwargs or {}))
        if self.strict:
            self._check(func)
            if func._schema.is_mutable:
                return self._change(func, args, kwargs or {})
        result = func(*args, **(kwargs or {}))
        called = self.graph.call_function(func, *tree_map_only(Tensor, self.node, (args, kwargs or {})))
        if isinstance(result, Tensor):
            self._keep(result, called)
        elif isinstance(result, (tuple, list)):
            for number, part in enumerate(result):
                called_item = self.graph.call_function(item, (called, number))
                self._keep(part, called_item)
        return result

    def _check(self, func: Any) -> None:
        """Raise for an operation that a graph cannot hold."""
        name = func.overloadpacket.__name__
        if func in (aten._local_scalar_dense.default, aten.equal.default, aten.nonzero.default):
            raise Untraceable(BY_VALUE)
        if torch.Tag.nondeterministic_seeded in func.tags:
            raise Untraceable(f"it draws random numbers ({name})")

    def _change(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
        """Record a change in place of a tensor that the step has made and seen in no other form as a new value."""
        name, changed = func.overloadpacket.__name__, args[0] if args else None
        packet = getattr(aten, name.removesuffix("_"), None) if name.endswith("_") else None
        overload = getattr(packet, func._overloadname, None)
        if overload is None or not isinstance(changed, Tensor) or not self._is_own(changed):
            raise Untraceable(f"it changes a tensor in place ({name})")
        value = overload(*args, **kwargs)
        if (value.shape, value.dtype) != (changed.shape, changed.dtype):
            raise Untraceable(f"it changes a tensor in place ({name})")
        called = self.graph.call_function(overload, *tree_map_only(Tensor, self.node, (args, kwargs)))
        func(*args, **kwargs)
        self._keep(changed, called)
        return changed

    def _is_own(self, tensor: Tensor) -> bool:
        """Whether an operation of the step has made a tensor, and no other one shares its memory."""
        memory = tensor.untyped_storage().data_ptr()
        sharing = [other for other in self.values.values() if other.untyped_storage().data_ptr() == memory]
        return self.node(tensor).op == "call_function" and all(other is tensor for other in sharing)

    def _place(self, name: str, tensor: Tensor) -> fx.Node:
        node = self.graph.placeholder(name)
        self._keep(tensor, node)
        return node

    def _keep(self, tensor: Tensor, node: fx.Node) -> None:
        node.meta["shape"], node.meta["dtype"] = tuple(tensor.shape), tensor.dtype
        self._nodes[id(tensor)] = node
        self.values[node] = tensor


def item(parts: Any, number: int) -> Any:
    """One of an operation's several results."""
    return parts[number]
