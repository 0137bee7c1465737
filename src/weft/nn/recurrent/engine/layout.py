"""The memory layout of a plan's tensors: shapes and names shared by the kernels of every backend.

Every buffer of the loop is (N, n), one row for each step of each row of the batch, in the order of the input: for a
row that is read backward, step s is at position length - 1 - s. N is B * T; where rows have different lengths, internal
buffers may hold the real steps only. The state after each step is kept as a `history`; where the emitted value is a
state, as in most cells, the history is the output. Values for the backward pass are written over the hoisted values
that they were computed from, if these have no other reader.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from weft.nn.recurrent.engine.adjoint import Adjoint
from weft.nn.recurrent.engine.argument import SAVED, Argument, Kind
from weft.nn.recurrent.engine.expr import Expr, Row, closure, placed, width_of
from weft.nn.recurrent.engine.program import Program


@dataclass(frozen=True)
class Store:
    """One assignment of a fused kernel: columns of a row of a buffer."""

    buffer: Argument
    offset: int
    expr: Expr


@dataclass(frozen=True, eq=False)
class Layout:
    """Which expression goes to which buffer, at which stage."""

    forward: list[list[Store]]
    backward: list[list[Store]]
    history_of: dict[int, int]
    """Emitted values that are a state, whole: the number of that state."""
    product_alias: dict[int, tuple[int, int]]
    """Products whose gradient is that of some columns of a hoisted value: its number and the first column."""
    vectors: list[Expr]
    kept: list[tuple[Argument, int]]
    """For each saved value the buffer and the first column: KEPT 2 is written over hoisted value 2."""
    saved: int
    """Columns of the buffer SAVED, for what has no such place."""

    columns: dict[Argument, int]
    """Columns of each buffer that has a row for each step."""

    @cached_property
    def overwritten(self) -> list[int]:
        """The hoisted values that are written over."""
        return sorted({buffer.number for buffer, _ in self.kept if buffer.kind is Kind.KEPT})


def lay_out(program: Program, adjoint: Adjoint, consumable: tuple[bool, ...]) -> Layout:
    history_of: dict[int, int] = {}
    for number, row in enumerate(program.emitted):
        free = [state for state, after in enumerate(program.after) if row == after and state not in history_of.values()]
        if free:
            history_of[number] = free[0]
    alias = {
        number: found
        for number, row in enumerate(adjoint.products)
        if (found := _find(row, adjoint.hoisted)) is not None
    }
    vectors = list(adjoint.vectors)
    forward = _forward(program, adjoint, history_of)
    kept = _keep(program, adjoint, forward, consumable)
    columns = max(
        (at + expr.width for (name, at), expr in zip(kept, adjoint.saved, strict=True) if name == SAVED), default=0
    )
    backward = _backward(program, adjoint, alias, vectors)
    sizes = _sizes(program, vectors) | {SAVED: columns}
    return Layout(forward, backward, history_of, alias, vectors, kept, columns, sizes)


def _sizes(program: Program, vectors: list[Expr]) -> dict[Argument, int]:
    sizes: dict[Argument, int] = {}
    for number, width in enumerate(program.hoisted):
        sizes |= {Argument(kind, number): width for kind in (Kind.HOISTED, Kind.GRAD_HOISTED, Kind.KEPT)}
    for number, width in enumerate(program.state):
        sizes[Argument(Kind.HISTORY, number)] = width
    for number, row in enumerate(program.emitted):
        sizes |= {Argument(kind, number): width_of(row) for kind in (Kind.EMITTED, Kind.GRAD_EMITTED)}
    for number, product in enumerate(program.products):
        sizes[Argument(Kind.GRAD_PRODUCT, number)] = product.width
        sizes[Argument(Kind.LEFTS, number)] = product.depth
    return sizes | {Argument(Kind.GRAD_VECTOR, number): expr.width for number, expr in enumerate(vectors)}


def _forward(program: Program, adjoint: Adjoint, history_of: dict[int, int]) -> list[list[Store]]:
    stages: list[list[Store]] = [[] for _ in range(program.stages + 1)]
    for number, product in enumerate(program.products):
        if number in adjoint.left:
            stages[product.stage - 1] += _stores(Argument(Kind.LEFT, number), product.left)
    for number, row in enumerate(program.after):
        stages[-1] += _stores(Argument(Kind.HISTORY, number), row)
    for number, row in enumerate(program.emitted):
        if number not in history_of:
            stages[-1] += _stores(Argument(Kind.EMITTED, number), row)
    return stages


def _keep(
    program: Program, adjoint: Adjoint, stages: list[list[Store]], consumable: tuple[bool, ...]
) -> list[tuple[Argument, int]]:
    """Add the stores of saved values to the forward stages; for each, the place that was found."""
    computed = [closure(store.expr for store in stage) for stage in stages]
    taken: set[Expr] = set()
    places: list[tuple[Argument, int]] = []
    beside = 0
    for expr in adjoint.saved:
        level = program.level(expr)
        stage = next((stage for stage in range(level, len(stages)) if expr in computed[stage]), level)
        computed[stage] = closure([*computed[stage], expr])
        free = [
            leaf for leaf in closure([expr]) if leaf not in taken and _is_free(leaf, expr, computed, stage, consumable)
        ]
        if free:
            taken.add(free[0])
            assert free[0].leaf is not None
            place = Argument(Kind.KEPT, free[0].leaf.place), free[0].leaf.offset
        else:
            place = SAVED, beside
            beside += expr.width
        places.append(place)
        stages[stage].append(Store(*place, expr))
    return places


def _is_free(leaf: Expr, expr: Expr, computed: list[list[Expr]], stage: int, consumable: tuple[bool, ...]) -> bool:
    """Whether columns of a hoisted value have served once this stage has read them, each in its own place."""
    if (
        leaf.leaf is None
        or leaf.leaf.kind != Kind.HOISTED
        or leaf.width != expr.width
        or not consumable[leaf.leaf.place]
    ):
        return False
    others = [
        part for part in {p for later in computed[stage:] for p in later} if part is not leaf and _overlap(part, leaf)
    ]
    return not others and not any(leaf in later for later in computed[stage + 1 :])


def _overlap(part: Expr, leaf: Expr) -> bool:
    a, b = part.leaf, leaf.leaf
    if a is None or b is None or (a.kind, a.place) != (b.kind, b.place):
        return False
    return a.offset < b.offset + leaf.width and b.offset < a.offset + part.width


def _backward(
    program: Program, adjoint: Adjoint, alias: dict[int, tuple[int, int]], vectors: list[Expr]
) -> list[list[Store]]:
    stages: list[list[Store]] = [[] for _ in range(adjoint.last + 1)]
    stores: list[Store] = []
    for number, row in enumerate(adjoint.hoisted):
        stores += _stores(Argument(Kind.GRAD_HOISTED, number), row)
    for number, row in enumerate(adjoint.products):
        if number not in alias:
            stores += _stores(Argument(Kind.GRAD_PRODUCT, number), row)
    for number, left in adjoint.left.items():
        stores += _stores(Argument(Kind.LEFTS, number), left)
    for number, expr in enumerate(vectors):
        stores.append(Store(Argument(Kind.GRAD_VECTOR, number), 0, adjoint.vectors[expr]))
    for number, row in enumerate(adjoint.state):
        stores += _stores(Argument(Kind.CARRY, number), row)
    for store in stores:
        stages[adjoint.level(store.expr)].append(store)
    return stages


def _stores(buffer: Argument, row: Row) -> list[Store]:
    return [Store(buffer, at, expr) for at, expr in placed(row)]


def _find(row: Row, within: list[Row]) -> tuple[int, int] | None:
    """Find a row value in others, compared part by part; returns the number of the other and the first column."""
    for number, other in enumerate(within):
        for start in range(len(other) - len(row) + 1):
            if other[start : start + len(row)] == row:
                return number, width_of(other[:start])
    return None
