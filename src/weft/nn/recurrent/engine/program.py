"""Plan, second part: the body of the loop as stages of matrix products and pointwise rows.

    stage 0   pointwise parts that need no product of this step
    stage k   products whose left sides stage k - 1 has made, then the pointwise parts that need them; to attend is one

An LSTM has one product in one stage; a GRU whose reset gate comes before the product has two stages.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch
from torch import fx

from weft.nn.recurrent.attending import attend_to
from weft.nn.recurrent.engine.argument import Kind
from weft.nn.recurrent.engine.colours import is_product
from weft.nn.recurrent.engine.expr import Builder, Expr, Row, width_of
from weft.nn.recurrent.engine.split import Split
from weft.nn.recurrent.engine.torch_operations import BINARY, COMPOSED, UNARY, log_sigmoid
from weft.nn.recurrent.engine.trace import Untraceable, item

aten = torch.ops.aten


ACROSS_ROWS: Final = "it takes a state apart across rows"

EVERY_OTHER: Final = "it takes every other column of a state, where kernels take neighbouring ones, as chunk does"


class Attention(NamedTuple):
    """How a product attends: its score is q·k, or with `over`, the number of a constant, over·tanh(q + k)."""

    over: int | None
    scale: float
    hard: bool


@dataclass(frozen=True, eq=False)
class Product:
    """left (depth) @ constants[weight] (depth, width) + constants[bias], once a step.

    With `attention` it is a query of `depth` columns that attends to the source, whose values have `width`: a product
    with a matrix of each row's own.
    """

    left: Row
    weight: int | None
    bias: int | None
    depth: int
    width: int
    stage: int
    attention: Attention | None = None


@dataclass(frozen=True, eq=False)
class Program:
    """One time step: rows over leaves `hoisted`, `state`, `vector` (a constant) and `product`."""

    build: Builder
    hoisted: list[int]
    state: list[int]
    vectors: dict[int, int]
    products: list[Product]
    emitted: list[Row]
    after: list[Row]
    levels: dict[Expr, int] = field(default_factory=dict)

    @property
    def attends(self) -> list[int]:
        """The products that attend to the source."""
        return [number for number, product in enumerate(self.products) if product.attention]

    @property
    def additive(self) -> list[int]:
        """Those whose score has a vector."""
        return [number for number in self.attends if self.products[number].attention[0] is not None]  # type: ignore[index]

    @property
    def stages(self) -> int:
        return max((product.stage for product in self.products), default=0)

    def level(self, expr: Expr) -> int:
        """The stage at which an expression can be computed."""
        if expr not in self.levels:
            if expr.leaf:
                self.levels[expr] = self.products[expr.leaf.place].stage if expr.leaf.kind == Kind.PRODUCT else 0
            else:
                self.levels[expr] = max((self.level(arg) for arg in expr.args), default=0)
        return self.levels[expr]


def arguments(node: fx.Node) -> Any:
    """The arguments of an operation, whose types only the operation knows."""
    return node.args


def keywords(node: fx.Node) -> Any:
    """The arguments that are given by name, likewise."""
    return node.kwargs


class RowView(NamedTuple):
    """A row value as the step sees it: its columns and the shape it gives them."""

    row: Row
    tail: tuple[int, ...]


def lower(split: Split) -> Program:
    """Read the body's graph into stages; raises Untraceable where an operation is not known to the kernels."""
    return _Lowering(split).run()


class _Lowering:
    def __init__(self, split: Split) -> None:
        self.split, self.build = split, Builder()
        self.program = Program(self.build, [], [], {}, [], [], [])
        self.values: dict[fx.Node, Any] = {}
        self.constants: dict[fx.Node, int] = {}

    def run(self) -> Program:
        inputs = [node for node in self.split.body.graph.nodes if node.op == "placeholder"]
        rows = self.split.hoisted + self.split.state
        self.source = inputs[rows + self.split.constants :]
        for number, node in enumerate(inputs[: rows + self.split.constants]):
            if number >= rows:
                self.constants[node] = number - rows
                continue
            kind, index = Kind.HOISTED, number
            if number >= self.split.hoisted:
                kind, index = Kind.STATE, number - self.split.hoisted
            tail = node.meta["shape"][1:]
            width = math.prod(tail)
            getattr(self.program, kind).append(width)
            self.values[node] = RowView([self.build.leaf(kind, index, width)], tail)
        for node in self.split.body.graph.nodes:
            if node.op == "call_function" and node.target is not aten.sym_size.int:
                self.values[node] = self._node(node)
        outputs = arguments(next(node for node in self.split.body.graph.nodes if node.op == "output"))[0]
        rows_out = [self._columns(node, node.meta["shape"][1:]).row for node in outputs]
        self.program.emitted.extend(rows_out[: self.split.emitted])
        self.program.after.extend(rows_out[self.split.emitted :])
        return self.program

    def _node(self, node: fx.Node) -> Any:
        target: Any = node.target
        tail = tuple(node.meta.get("shape", ()))[1:]
        if is_product(node):
            return RowView(self._product(node), tail)
        if target is attend_to:
            return RowView(self._attend(node), tail)
        if target is item:
            return self.values[arguments(node)[0]][arguments(node)[1]]
        if target in STRUCTURE:
            return STRUCTURE[target](self, node, tail)
        if target in FILL:
            return RowView([self.build.number(FILL[target](node), max(1, math.prod(tail)))], tail)
        name = target.overloadpacket.__name__
        if target in UNARY:
            return RowView(self.build.row_op(UNARY[target], self._columns(arguments(node)[0], tail).row), tail)
        if target in BINARY or target in COMPOSED:
            parts = [self._columns(argument, tail).row for argument in arguments(node)]
            if target in COMPOSED:
                return RowView(self._composed(target, parts, node, tail), tail)
            if (alpha := keywords(node).get("alpha", 1)) != 1:
                factor = [self.build.number(alpha, math.prod(tail))]
                parts[1] = self.build.row_op("mul", parts[1], factor)
            return RowView(self.build.row_op(BINARY[target], *parts), tail)
        raise Untraceable(f"the kernels do not know the operation {name} on a state")

    def _composed(self, target: Any, parts: list[Row], node: fx.Node, tail: tuple[int, ...]) -> Row:
        named = {name: self._columns(value, tail).row for name, value in keywords(node).items()}
        try:
            return COMPOSED[target](self.build, *parts, **named)
        except TypeError:  # an argument that our version of the operation does not have
            raise Untraceable(
                f"the kernels do not know {target.overloadpacket.__name__} with these arguments"
            ) from None

    def _product(self, node: fx.Node) -> Row:
        *bias, left, weight = arguments(node)
        if weight not in self.constants:
            raise Untraceable("it multiplies two matrices that both depend on the state")
        depth, width = weight.meta["shape"]
        if bias and (bias[0] not in self.constants or bias[0].meta["shape"] != (width,)):
            raise Untraceable("a matrix is added to a product")
        row = self._columns(left, (depth,)).row
        constant = self.constants[bias[0]] if bias else None
        return self._add(Product(row, self.constants[weight], constant, depth, width, self._stage_of(row)))

    def _attend(self, node: fx.Node) -> Row:
        query, keys, values, lengths, over, scale, hard = arguments(node)
        if [keys, values, lengths] != self.source:
            raise Untraceable("it attends to something else than its source")
        if over is not None and (over not in self.constants or len(over.meta["shape"]) != 1):
            raise Untraceable("the vector of its scores is no parameter")
        depth, width = keys.meta["shape"][2], values.meta["shape"][2]
        row = self._columns(query, (depth,)).row
        attention = Attention(None if over is None else self.constants[over], scale, hard)
        return self._add(Product(row, None, None, depth, width, self._stage_of(row), attention))

    def _stage_of(self, left: Row) -> int:
        return 1 + max(self.program.level(expr) for expr in left)

    def _add(self, product: Product) -> Row:
        self.program.products.append(product)
        return [self.build.leaf(Kind.PRODUCT, len(self.program.products) - 1, product.width)]

    def _columns(self, argument: Any, tail: tuple[int, ...]) -> RowView:
        """An argument as columns of this shape: numbers and constants are repeated for every row."""
        width = math.prod(tail)
        if argument is None:
            return RowView([], tail)
        if not isinstance(argument, fx.Node):
            return RowView([self.build.number(argument, width)], tail)
        if argument in self.constants:
            return RowView([self._vector(argument, tail)], tail)
        columns: RowView = self.values[argument]
        if columns.tail == tail:
            return columns
        if len(columns.row) == 1 and columns.row[0].value is not None:
            return RowView([self.build.number(columns.row[0].value, width)], tail)
        raise Untraceable("it spreads one column of a state over several")

    def _vector(self, node: fx.Node, tail: tuple[int, ...]) -> Expr:
        index, shape, width = self.constants[node], node.meta["shape"], math.prod(tail)
        size = math.prod(shape)
        if size == 1 or tuple(shape[-len(tail) :]) == tail == tuple(shape) or shape == (1, *tail):
            self.program.vectors[index] = size
            return self.build.leaf(Kind.VECTOR, index, width, stride=0 if size == 1 else 1)
        raise Untraceable(f"a constant of the shape {tuple(shape)} does not fit a row of the shape {tail}")


def _split(lowering: _Lowering, node: fx.Node, tail: tuple[int, ...]) -> list[RowView]:
    source, sizes, *dim = arguments(node)
    columns: RowView = lowering.values[source]
    total = width_of(columns.row)
    _last_dimension(dim[0] if dim else keywords(node).get("dim", 0), columns)
    if isinstance(sizes, int):
        sizes = [min(sizes, total - start) for start in range(0, total, sizes)]
    starts = [sum(sizes[:number]) for number in range(len(sizes))]
    return [
        RowView(lowering.build.columns(columns.row, start, size), (size,))
        for start, size in zip(starts, sizes, strict=True)
    ]


def _slice(lowering: _Lowering, node: fx.Node, tail: tuple[int, ...]) -> RowView:
    given = list(arguments(node))
    source, dim, start, end, step = given + [None, 0, None, None, 1][len(given) :]
    columns: RowView = lowering.values[source]
    if dim == 0 and start in (0, None) and end in (None, 2**63 - 1):
        return columns
    _last_dimension(dim, columns)
    if step != 1:
        raise Untraceable(EVERY_OTHER)
    total = width_of(columns.row)
    start, end, _ = slice(start, end).indices(total)
    return RowView(lowering.build.columns(columns.row, start, end - start), (end - start,))


def _cat(lowering: _Lowering, node: fx.Node, tail: tuple[int, ...]) -> RowView:
    parts, *dim = arguments(node)
    _last_dimension(dim[0] if dim else 0, RowView([], tail))
    rows = [lowering._columns(part, part.meta["shape"][1:]).row for part in parts]
    return RowView([expr for row in rows for expr in row], tail)


def _select(lowering: _Lowering, node: fx.Node, tail: tuple[int, ...]) -> RowView:
    source, dim, index = arguments(node)
    return _groups(lowering, lowering.values[source], dim)[int(index)]


def _unbind(lowering: _Lowering, node: fx.Node, tail: tuple[int, ...]) -> list[RowView]:
    return _groups(lowering, lowering.values[arguments(node)[0]], arguments(node)[1] if len(arguments(node)) > 1 else 0)


def _groups(lowering: _Lowering, columns: RowView, dim: int) -> list[RowView]:
    """(B, G, n) -> G of (B, n)."""
    if dim == 0:
        raise Untraceable(ACROSS_ROWS)
    if len(columns.tail) != 2 or dim not in (1, -2):
        raise Untraceable(EVERY_OTHER)
    count, width = columns.tail
    return [RowView(lowering.build.columns(columns.row, number * width, width), (width,)) for number in range(count)]


def _same(lowering: _Lowering, node: fx.Node, tail: tuple[int, ...]) -> RowView:
    columns: RowView = lowering.values[arguments(node)[0]]
    if width_of(columns.row) != math.prod(tail):
        raise Untraceable("it spreads one column of a state over several")
    return RowView(columns.row, tail)


def _last_dimension(dim: int, columns: RowView) -> None:
    if dim == 0:
        raise Untraceable(ACROSS_ROWS)
    if dim not in (1, -1) or len(columns.tail) != 1:
        raise Untraceable(EVERY_OTHER)


def _log_sigmoid(lowering: _Lowering, node: fx.Node, tail: tuple[int, ...]) -> list[RowView]:
    """Its second result is for torch's own derivative."""
    x: RowView = lowering.values[arguments(node)[0]]
    return [RowView(log_sigmoid(lowering.build, x.row), x.tail), RowView([], ())]


STRUCTURE: Final[dict[Any, Callable[[_Lowering, fx.Node, tuple[int, ...]], Any]]] = {
    aten.split.Tensor: _split,
    aten.split_with_sizes.default: _split,
    aten.slice.Tensor: _slice,
    aten.cat.default: _cat,
    aten.select.int: _select,
    aten.unbind.int: _unbind,
    aten.view.default: _same,
    aten._unsafe_view.default: _same,
    aten.clone.default: _same,
    aten.expand.default: _same,
    aten.alias.default: _same,
    aten.log_sigmoid_forward.default: _log_sigmoid,
}

FILL: Final[dict[Any, Callable[[fx.Node], Any]]] = {
    aten.scalar_tensor.default: lambda node: arguments(node)[0],
    aten.full.default: lambda node: arguments(node)[1],
    aten.full_like.default: lambda node: arguments(node)[1],
    aten.new_full.default: lambda node: arguments(node)[2],
    aten.zeros.default: lambda node: 0.0,
    aten.ones.default: lambda node: 1.0,
    aten.zeros_like.default: lambda node: 0.0,
    aten.new_zeros.default: lambda node: 0.0,
    aten.ones_like.default: lambda node: 1.0,
    aten.new_ones.default: lambda node: 1.0,
}
