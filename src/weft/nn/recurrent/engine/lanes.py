"""Lanes: columns of a step without products that can be computed by themselves, over all of time.

Where no matrix product reads the state, column j of every value depends on a few columns of the states alone. Cut at
the same places, states and expressions fall into groups of equal width: a lane. Most cells have one lane as wide as
their state; a cell that also averages its input over time has a second one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

from weft.nn.recurrent.engine.adjoint import Adjoint
from weft.nn.recurrent.engine.argument import Kind
from weft.nn.recurrent.engine.expr import Builder, Expr, closure
from weft.nn.recurrent.engine.layout import Assignment, BufferLayout
from weft.nn.recurrent.engine.program import Program

MAX_PIECES: Final = 64
"""Pieces of the states above which a step mixes its columns too much for lanes."""

CARRIED: Final = (Kind.STATE, Kind.AFTER, Kind.GRAD_AFTER)
"""Leaves that are columns of a state, or of its gradient."""


class Piece(NamedTuple):
    """Columns offset .. offset + width of a state, the width being that of its lane."""

    state: int
    offset: int


@dataclass(frozen=True, eq=False)
class Lane:
    """after[k] is the next value of pieces[k], before[k] the gradient of its value before the step.

    forward and backward: everything else that the loops store.
    """

    width: int
    pieces: list[Piece]
    after: list[Expr]
    before: list[Expr]
    forward: list[Assignment]
    backward: list[Assignment]


def find_lanes(program: Program, adjoint: Adjoint, layout: BufferLayout) -> list[Lane] | None:
    """The lanes of a step without products; None where it has products, or mixes its columns too much."""
    if program.products:
        return None
    forward = [store for stage in layout.forward for store in stage]
    backward = [store for stage in layout.backward for store in stage]
    return group_lanes(program, forward, backward)


def group_lanes(program: Program, forward: list[Assignment], backward: list[Assignment]) -> list[Lane] | None:
    """The lanes of all that a step stores, forward and backward; None where it mixes its columns too much.

    The results of products count as input: a step with products has lanes between them.
    """
    edges = _edges(program, [*forward, *backward])
    if edges is None:
        return None
    forward, backward = (
        [part for store in stores for part in _cut(program.build, store, edges)] for stores in (forward, backward)
    )
    return _group(program, edges, forward, backward)


def _edges(program: Program, stores: list[Assignment]) -> list[set[int]] | None:
    """Of each state the columns at which to cut it, so that every expression reads whole pieces."""
    edges = [{0, width} for width in program.state]
    count = -1
    while count != (count := sum(map(len, edges))):
        for store in stores:
            if count > MAX_PIECES + len(edges):
                return None
            for state, at in (reads := _reads(store)):
                for cut in _cuts(reads, store.expr.width, edges):
                    edges[state].add(at + cut)
                edges[state] |= {at, at + store.expr.width}
    return edges


def _reads(store: Assignment) -> list[tuple[int, int]]:
    """The states whose columns an assignment reads or makes, and the first of these columns."""
    found = [
        (part.leaf.place, part.leaf.offset) for part in closure([store.expr]) if part.leaf and part.leaf.kind in CARRIED
    ]
    if store.buffer.kind in (Kind.HISTORY, Kind.CARRY):
        found.append((store.buffer.number, store.offset))
    return found


def _cuts(reads: list[tuple[int, int]], width: int, edges: list[set[int]]) -> list[int]:
    """The columns of an assignment, counted from its first, at which a state that it reads is cut."""
    return sorted({edge - at for state, at in reads for edge in edges[state] if at < edge < at + width})


def _cut(build: Builder, store: Assignment, edges: list[set[int]]) -> Iterator[Assignment]:
    starts = [0, *_cuts(_reads(store), store.expr.width, edges), store.expr.width]
    for start, end in pairwise(starts):
        yield Assignment(store.buffer, store.offset + start, build.cut(store.expr, start, end - start))


def _group(
    program: Program, edges: list[set[int]], forward: list[Assignment], backward: list[Assignment]
) -> list[Lane]:
    """Lanes of the pieces that read each other; what reads none goes with some lane of its width."""
    pieces = [Piece(state, at) for state, cuts in enumerate(edges) for at in sorted(cuts)[:-1]]
    lane_of = {piece: number for number, piece in enumerate(pieces)}
    for store in [*forward, *backward]:
        joined = {lane_of[Piece(*read)] for read in _reads(store)}
        lane_of = {piece: min(joined) if lane in joined else lane for piece, lane in lane_of.items()}
    widths = {
        piece: sorted(cuts)[sorted(cuts).index(piece.offset) + 1] - piece.offset
        for piece in pieces
        for cuts in [edges[piece.state]]
    }
    lanes: dict[int, Lane] = {}
    for piece in pieces:
        lane = lanes.setdefault(lane_of[piece], Lane(widths[piece], [], [], [], [], []))
        lane.pieces.append(piece)
        lane.after.append(_piece_of(program, program.after[piece.state], piece, lane.width))
    carries = {(store.buffer.number, store.offset): store.expr for store in backward if store.buffer.kind is Kind.CARRY}
    for lane in lanes.values():
        lane.before.extend(carries[piece] for piece in lane.pieces)
    extra: dict[int, Lane] = {}
    for stores, name in ((forward, "forward"), (backward, "backward")):
        for store in stores:
            if store.buffer.kind is Kind.CARRY:
                continue
            reads = _reads(store)
            if reads:
                lane = lanes[lane_of[Piece(*reads[0])]]
            else:
                width = store.expr.width
                same = (found for found in lanes.values() if found.width == width)
                lane = next(same, None) or extra.setdefault(width, Lane(width, [], [], [], [], []))
            getattr(lane, name).append(store)
    return [*lanes.values(), *extra.values()]


def _piece_of(program: Program, row: list[Expr], piece: Piece, width: int) -> Expr:
    (expr,) = program.build.columns(row, piece.offset, width)
    return expr
