"""The plan of a persistent kernel for a step with one product: what units exchange, and what each computes alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.expr import Expr, closure, placed
from weft.nn.recurrent.engine.lanes import Lane, group_lanes
from weft.nn.recurrent.engine.layout import Assignment
from weft.nn.recurrent.engine.triton_stage import Stage, group_products

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.plan import Kernels

EXCHANGE: Final = Argument(Kind.LEFT, 0)
"""The buffer in which blocks exchange the left sides of all steps."""

MATRIX: Final = Argument(Kind.WEIGHT, 0)
"""The weights of all products of the stage as one matrix (columns of the result, depth)."""

DEPTH_UNIT: Final = 32
"""Columns of the depth that a warp takes at once."""


class Unsuited(Exception):
    """A step that a persistent kernel cannot run; the message is the reason."""


@dataclass(frozen=True, eq=False)
class PersistentPass:
    """One pass of a step with one product.

    published: the columns of the left side that a unit makes, each with its first column there
    leaves: the columns of the product that a unit reads, by their leaf, each with its first column there
    depth: all columns of the left side
    exchange: the buffer and its first column in which the left sides of all steps stand anyway, or None
    """

    published: list[tuple[int, Expr]]
    leaves: dict[Expr, int]
    depth: int
    stores: list[Assignment]
    exchange: tuple[Argument, int] | None


@dataclass(frozen=True, eq=False)
class PersistentPlan:
    """The plan of both passes."""

    plan: Kernels
    lane: Lane
    group: Stage
    forward: PersistentPass
    backward: PersistentPass

    @property
    def width(self) -> int:
        """The units of the state."""
        return self.lane.width

    def one(self, *, backward: bool) -> PersistentPass:
        return self.backward if backward else self.forward


def plan_persistent(plan: Kernels) -> PersistentPlan:
    """Find out what a persistent kernel has to do; raises Unsuited."""
    program, adjoint = plan.program, plan.adjoint
    if program.attends:
        raise Unsuited("its step attends")
    if not program.products:
        raise Unsuited("its step has no product")
    if program.stages != 1 or adjoint.last != 1:
        raise Unsuited("its step has more than one product after another")
    group = group_products(program, range(len(program.products)))
    lefts = list(group.placed_lefts())
    if any(part.leaf and part.leaf.kind not in (Kind.STATE, Kind.VECTOR) for part in closure(e for _, e in lefts)):
        raise Unsuited("the left side of its product is made of more than states")
    gradients = [
        (group.result_at(number) + at, expr)
        for number in group.products
        for at, expr in placed(adjoint.products[number])
    ]
    gradients.sort(key=lambda pair: pair[0])
    forward = [store for stage in plan.layout.forward for store in stage if store.buffer.kind is not Kind.LEFT]
    backward = [store for stage in plan.layout.backward for store in stage]
    behind = Argument(Kind.GRAD_LEFT, 0)
    lanes = group_lanes(
        program,
        forward + [Assignment(EXCHANGE, at, expr) for at, expr in lefts],
        backward + [Assignment(behind, at, expr) for at, expr in gradients],
    )
    if lanes is None or len(lanes) != 1 or len(lanes[0].pieces) != len(program.state):
        raise Unsuited("its states have several widths, or it mixes their columns")
    (lane,) = lanes
    if lane.width % DEPTH_UNIT:
        raise Unsuited(f"its state has {lane.width} units, not a multiple of {DEPTH_UNIT}")
    passes = []
    for stores, news, mark, depth in (
        (lane.forward, lane.after, EXCHANGE, group.depth),
        (lane.backward, lane.before, behind, group.width),
    ):
        published = [(store.offset, store.expr) for store in stores if store.buffer == mark]
        own = [store for store in stores if store.buffer != mark]
        if any(store.expr.width != lane.width for store in stores) or depth % DEPTH_UNIT:
            raise Unsuited("it mixes columns of its state")
        leaves = _leaves(group, [*(store.expr for store in own), *news])
        passes.append(PersistentPass(published, leaves, depth, own, _place(published, own, depth)))
    return PersistentPlan(plan, lane, group, *passes)


def _leaves(group: Stage, exprs: Iterable[Expr]) -> dict[Expr, int]:
    """The columns of the product that some expressions read."""
    found = {}
    for part in closure(exprs):
        if part.leaf and part.leaf.kind is Kind.PRODUCT:
            found[part] = group.result_at(part.leaf.place) + part.leaf.offset
        elif part.leaf and part.leaf.kind is Kind.GRAD_LEFT and group.speaks_for_left(part.leaf.place):
            found[part] = group.left_at(part.leaf.place) + part.leaf.offset
    return found


def _place(published: list[tuple[int, Expr]], stores: list[Assignment], depth: int) -> tuple[Argument, int] | None:
    """A buffer in which everything that is published is stored anyway, side by side in the same order."""
    wanted = dict(published)
    if sum(expr.width for expr in wanted.values()) != depth:
        return None
    for buffer in dict.fromkeys(store.buffer for store in stores):
        here = {store.offset: store.expr for store in stores if store.buffer == buffer}
        for start in here:
            if all(here.get(start + at) is expr for at, expr in wanted.items()):
                return buffer, start
    return None
