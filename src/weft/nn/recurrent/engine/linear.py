"""Which steps are linear in their state: a proof on the expressions, never a guess from numbers.

    linear        h' = a ⊙ h + b for each state h, where a and b read the input and states that come before h
    elementwise   no matrix product reads the state
    product       one does

A state may feed another that is linear in itself, through any function: d' = σ(c) ⊙ d + c² comes after c. Two states
that read each other are not linear in this sense, and neither is a gate that reads its own state.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from weft.nn.recurrent.engine.argument import Kind
from weft.nn.recurrent.engine.expr import Builder, Expr, closure
from weft.nn.recurrent.engine.lanes import Lane


class StepClass(StrEnum):
    """How a step depends on its state."""

    LINEAR = "linear"
    ELEMENTWISE = "elementwise"
    PRODUCT = "product"


class Affine(NamedTuple):
    """An expression as slope ⊙ leaf + rest, neither of which reads the leaf."""

    slope: Expr
    rest: Expr


class Order(NamedTuple):
    """Of each piece of a lane: the slope of its recurrence, and its level, one above those of the pieces it reads."""

    slopes: list[Expr]
    levels: list[int]


def affine(build: Builder, expr: Expr, leaf: Expr) -> Affine | None:
    """slope and rest, or None where the expression is not, in this form, linear in the leaf."""
    known: dict[Expr, Affine | None] = {}
    for part in closure([expr]):
        known[part] = _affine(build, part, leaf, known)
    return known[expr]


def _affine(build: Builder, expr: Expr, leaf: Expr, known: dict[Expr, Affine | None]) -> Affine | None:
    zero = build.number(0.0, expr.width)
    if expr is leaf:
        return Affine(build.number(1.0, expr.width), zero)
    parts = [known[arg] for arg in expr.args]
    if all(part is not None and part.slope is zero for part in parts):  # of parts that do not read it
        return Affine(zero, expr)
    if expr.op not in LINEAR_IN or any(part is None for part in parts):
        return None
    if any(part and part.slope is not zero and place not in LINEAR_IN[expr.op] for place, part in enumerate(parts)):
        return None
    slopes, rests = [part.slope for part in parts if part], [part.rest for part in parts if part]
    if expr.op == "mul":
        if all(slope is not zero for slope in slopes):
            return None
        by = 0 if slopes[0] is zero else 1
        slopes[by] = rests[by]
    elif expr.op == "div":
        slopes[1] = rests[1]
    elif expr.op == "where":
        slopes[0] = rests[0]
    return Affine(build.op(expr.op, *slopes), build.op(expr.op, *rests))


LINEAR_IN: dict[str, tuple[int, ...]] = {
    "add": (0, 1),
    "sub": (0, 1),
    "neg": (0,),
    "mul": (0, 1),
    "div": (0,),
    "where": (1, 2),
    "detach": (0,),
}
"""The arguments in which an operation is linear, the others being given; a product of both is not."""


def order(build: Builder, values: list[Expr], leaves: list[Expr]) -> Order | None:
    """values[k] is the next of leaves[k]: the slopes and levels if each is linear in itself, given those it reads."""
    slopes: dict[int, Expr] = {}
    levels: dict[int, int] = {}
    reads = [{k for k, leaf in enumerate(leaves) if leaf in closure([value])} for value in values]
    while len(levels) < len(values):
        ready = [k for k in range(len(values)) if k not in levels and reads[k] - {k} <= levels.keys()]
        if not ready:
            return None
        for k in ready:
            found = affine(build, values[k], leaves[k])
            if found is None:
                return None
            slopes[k], levels[k] = found.slope, 1 + max((levels[other] for other in reads[k] - {k}), default=-1)
    return Order([slopes[k] for k in range(len(values))], [levels[k] for k in range(len(values))])


class Scan(NamedTuple):
    """The order of a lane's pieces forward, and that of their gradients backward."""

    forward: Order
    backward: Order


def find_scan(build: Builder, lane: Lane) -> Scan | None:
    """How a lane is computed in parallel over time; None where it is not linear."""
    found = [
        order(build, values, [build.leaf(kind, piece.state, lane.width, offset=piece.offset) for piece in lane.pieces])
        for values, kind in ((lane.after, Kind.STATE), (lane.before, Kind.GRAD_AFTER))
    ]
    return Scan(*found) if all(found) else None  # type: ignore[arg-type]
