"""Expressions over the columns of one row: what a fused kernel computes.

An expression is a leaf (some columns of a row of a buffer), a number, or an operation on expressions of one width.
Equal expressions are one object, so common parts are computed once and may be compared by identity. A row value is a
list of expressions side by side; cutting one into columns pushes the cut down to the leaves, so that no kernel ever
slices or concatenates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from weft.nn.recurrent.engine.argument import Kind


class Leaf(NamedTuple):
    """Columns offset .. offset + width of row b of a buffer; a stride of 0 repeats one column."""

    kind: Kind
    place: int
    offset: int
    stride: int = 1


class Expr:
    """One node; `number` orders expressions so that arguments come before what uses them."""

    __slots__ = ("args", "leaf", "number", "op", "value", "width")

    def __init__(
        self, op: str, args: tuple[Expr, ...], width: int, *, leaf: Leaf | None, value: float | None, number: int
    ) -> None:
        self.op, self.args, self.width = op, args, width
        self.leaf, self.value, self.number = leaf, value, number

    def __repr__(self) -> str:
        if self.leaf:
            return f"{self.leaf.kind}{self.leaf.place}[{self.leaf.offset}:+{self.width}]"
        return str(self.value) if self.op == "number" else f"{self.op}({', '.join(map(repr, self.args))})"


Row = list[Expr]
"""Expressions side by side: the columns of a row value."""


class Builder:
    """Makes expressions, each only once, with the simplest algebra applied."""

    def __init__(self) -> None:
        self._known: dict[object, Expr] = {}

    def leaf(self, kind: Kind, index: int, width: int, *, offset: int = 0, stride: int = 1) -> Expr:
        return self._make("leaf", (), width, leaf=Leaf(kind, index, offset, stride))

    def number(self, value: float, width: int) -> Expr:
        return self._make("number", (), width, value=float(value))

    def op(self, op: str, *args: Expr) -> Expr:
        if len({arg.width for arg in args}) != 1:
            raise ValueError(f"{op} of different widths: {args}")
        if (simple := SIMPLER.get(op, _no_rule)(self, args)) is not None:
            return simple
        return self._make(op, args, args[0].width)

    def cut(self, expr: Expr, start: int, width: int) -> Expr:
        """Columns start .. start + width of an expression."""
        if start == 0 and width == expr.width:
            return expr
        if expr.leaf:
            kind, index, offset, stride = expr.leaf
            return self.leaf(kind, index, width, offset=offset + start * stride, stride=stride)
        if expr.value is not None:
            return self.number(expr.value, width)
        key = ("cut", expr.number, start, width)
        if key not in self._known:
            self._known[key] = self.op(expr.op, *(self.cut(arg, start, width) for arg in expr.args))
        return self._known[key]

    def columns(self, row: Row, start: int, width: int) -> Row:
        """Columns start .. start + width of a row value."""
        taken: Row = []
        for at, expr in placed(row):
            low, high = max(start, at), min(start + width, at + expr.width)
            if low < high:
                taken.append(self.cut(expr, low - at, high - low))
        return taken

    def align(self, rows: list[Row]) -> list[Row]:
        """Cut all row values at the same columns."""
        ends = sorted({at + expr.width for row in rows for at, expr in placed(row)})
        starts = [0, *ends[:-1]]
        return [
            [part for start, end in zip(starts, ends, strict=True) for part in self.columns(row, start, end - start)]
            for row in rows
        ]

    def row_op(self, op: str, *rows: Row) -> Row:
        return [self.op(op, *parts) for parts in zip(*self.align(list(rows)), strict=True)]

    def total(self, exprs: Iterable[Expr]) -> Expr | None:
        """The sum of some expressions, or None of none."""
        result: Expr | None = None
        for expr in exprs:
            result = expr if result is None else self.op("add", result, expr)
        return result

    def rebuild(self, expr: Expr, replace: Callable[[Expr], Expr | None], done: dict[Expr, Expr]) -> Expr:
        """An expression with parts replaced; `replace` returns a part's replacement, or None to go into the part."""
        if expr not in done:
            new = replace(expr)
            if new is None:
                parts = [self.rebuild(arg, replace, done) for arg in expr.args]
                new = self.op(expr.op, *parts) if parts else expr
            done[expr] = new
        return done[expr]

    def _make(
        self, op: str, args: tuple[Expr, ...], width: int, *, leaf: Leaf | None = None, value: float | None = None
    ) -> Expr:
        key = (op, tuple(arg.number for arg in args), width, leaf, value)
        if key not in self._known:
            self._known[key] = Expr(op, args, width, leaf=leaf, value=value, number=len(self._known))
        return self._known[key]


def placed(row: Row) -> Iterator[tuple[int, Expr]]:
    """Each part of a row value with the column at which it begins."""
    at = 0
    for expr in row:
        yield at, expr
        at += expr.width


def width_of(row: Row) -> int:
    return sum(expr.width for expr in row)


def closure(roots: Iterable[Expr]) -> list[Expr]:
    """Everything these expressions are made of, arguments first."""
    found: dict[Expr, None] = {}
    todo = list(roots)
    while todo:
        expr = todo.pop()
        if expr not in found:
            found[expr] = None
            todo += expr.args
    return sorted(found, key=lambda expr: expr.number)


def _no_rule(build: Builder, args: tuple[Expr, ...]) -> Expr | None:
    return None


def _add(build: Builder, args: tuple[Expr, ...]) -> Expr | None:
    a, b = args
    if a.value is not None and b.value is not None:
        return build.number(a.value + b.value, a.width)
    return b if a.value == 0.0 else a if b.value == 0.0 else None


def _sub(build: Builder, args: tuple[Expr, ...]) -> Expr | None:
    a, b = args
    return a if b.value == 0.0 else build.op("neg", b) if a.value == 0.0 else None


def _mul(build: Builder, args: tuple[Expr, ...]) -> Expr | None:
    a, b = args
    if a.value is not None and b.value is not None:
        return build.number(a.value * b.value, a.width)
    if a.value == 0.0 or b.value == 0.0:
        return build.number(0.0, a.width)
    return b if a.value == 1.0 else a if b.value == 1.0 else None


def _neg(build: Builder, args: tuple[Expr, ...]) -> Expr | None:
    (a,) = args
    return build.number(-a.value, a.width) if a.value is not None else a.args[0] if a.op == "neg" else None


SIMPLER: Final[dict[str, Callable[[Builder, tuple[Expr, ...]], Expr | None]]] = {
    "add": _add,
    "sub": _sub,
    "mul": _mul,
    "neg": _neg,
}
