"""Plan, third part: the backward step, derived from the forward one.

Reverse accumulation over the expressions of one step. Two more kinds of leaves come in from outside, the gradients of
the next state (`grad_after`, carried from the step behind) and of the emitted values (`grad_emitted`); each product
turns the gradient of its result into that of its left side (`grad_left`). The gradients of weights are no part of the
loop: they are one product after it.

What the backward step reads of the forward one is either a state (kept anyway, before as `state` and after as
`after`), cheap to compute again from what is kept, or kept as `saved`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from weft.nn.recurrent.engine.argument import Kind
from weft.nn.recurrent.engine.expr import Builder, Expr, Row, closure, placed
from weft.nn.recurrent.engine.operations import CHEAP, OPERATIONS
from weft.nn.recurrent.engine.program import Program


@dataclass(frozen=True, eq=False)
class Adjoint:
    """The backward step: rows over `state`, `after`, `saved`, `vector`, `grad_after`, `grad_emitted`, `grad_left`, and
    `hoisted` where nothing is saved.

    saved: what the forward step keeps. The gradients have the widths of what they belong to; `products` are those of
    the results, `left` the left sides themselves where they are not simply a state, and queries of additive scores.
    stages[p] is the stage, counted from the end of the step, after whose pointwise part product p goes backward.
    """

    saved: Row
    hoisted: list[Row]
    state: list[Row]
    vectors: dict[Expr, Expr]
    products: list[Row]
    left: dict[int, Row]
    stages: list[int]
    levels: dict[Expr, int] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return max(self.stages, default=0)

    def level(self, expr: Expr) -> int:
        """The backward stage at which an expression can be computed."""
        if expr not in self.levels:
            if expr.leaf:
                self.levels[expr] = self.stages[expr.leaf.place] if expr.leaf.kind == Kind.GRAD_LEFT else 0
            else:
                self.levels[expr] = max((self.level(arg) for arg in expr.args), default=0)
        return self.levels[expr]


def derive(program: Program, *, recompute: bool = False) -> Adjoint:
    """The backward step of a program. With `recompute` it reads hoisted values and computes everything else again,
    so that nothing is saved."""
    build = program.build
    gradients = _accumulate(program)
    leaves: dict[tuple[Kind, int], list[tuple[int, Expr]]] = {}
    vectors: dict[Expr, Expr] = {}
    for expr, gradient in gradients.items():
        if expr.leaf and expr.leaf.kind == Kind.VECTOR:
            vectors[expr] = gradient
        elif expr.leaf:
            leaves.setdefault((expr.leaf.kind, expr.leaf.place), []).append((expr.leaf.offset, gradient))

    def rows(kind: Kind, widths: list[int]) -> list[Row]:
        return [_assemble(build, width, leaves.get((kind, number), [])) for number, width in enumerate(widths)]

    hoisted, state = rows(Kind.HOISTED, program.hoisted), rows(Kind.STATE, program.state)
    products = rows(Kind.PRODUCT, [product.width for product in program.products])
    left = {
        number: product.left
        for number, product in enumerate(program.products)
        if pure_state(program, product.left) is None or number in program.additive
    }
    keeper = _Keeper(program, recompute=recompute)
    kept = [keeper.rows(group) for group in (hoisted, state, products)]
    kept_left = dict(zip(left, keeper.rows(list(left.values())), strict=True))
    kept_vectors = dict(zip(vectors, keeper.rows([[gradient] for gradient in vectors.values()]), strict=True))
    adjoint = Adjoint(
        keeper.saved,
        kept[0],
        kept[1],
        {expr: row[0] for expr, row in kept_vectors.items()},
        kept[2],
        kept_left,
        [0] * len(program.products),
    )
    for number in sorted(range(len(program.products)), key=lambda n: -program.products[n].stage):
        adjoint.stages[number] = 1 + max(adjoint.level(expr) for expr in adjoint.products[number])
        adjoint.levels.clear()  # what waits for this product has another level now
    return adjoint


def pure_state(program: Program, row: Row) -> int | None:
    """The number of the state that a row value is, whole and unchanged, or None."""
    leaf = row[0].leaf if len(row) == 1 else None
    if leaf is None or leaf.kind != Kind.STATE or leaf.offset or row[0].width != program.state[leaf.place]:
        return None
    return leaf.place


def left_states(program: Program) -> list[int]:
    """The states that are the left side of a product as they are."""
    found = {pure_state(program, product.left) for product in program.products}
    return sorted(state for state in found if state is not None)


def _accumulate(program: Program) -> dict[Expr, Expr]:
    """The gradient of every expression of the forward step that gets one."""
    build = program.build
    terms: dict[Expr, list[Expr]] = {}

    def give(rows: list[Row], kind: Kind) -> None:
        for number, row in enumerate(rows):
            for at, expr in placed(row):
                terms.setdefault(expr, []).append(build.leaf(kind, number, expr.width, offset=at))

    give(program.after, Kind.GRAD_AFTER)
    give(program.emitted, Kind.GRAD_EMITTED)
    give([product.left for product in program.products], Kind.GRAD_LEFT)
    roots = [*program.after, *program.emitted, *(product.left for product in program.products)]
    gradients: dict[Expr, Expr] = {}
    for expr in reversed(closure(part for row in roots for part in row)):
        gradient = build.total(terms.get(expr, []))
        if gradient is None:
            continue
        gradients[expr] = gradient
        if expr.args:
            parts = OPERATIONS[expr.op].derivative(build, gradient, expr, expr.args)
            for arg, part in zip(expr.args, parts, strict=True):
                if part is not None and arg.value is None:
                    terms.setdefault(arg, []).append(part)
    return gradients


def _assemble(build: Builder, width: int, parts: list[tuple[int, Expr]]) -> Row:
    """Gradients of some columns, which may overlap or leave gaps -> those of all columns."""
    edges = sorted({0, width, *(at for at, _ in parts), *(at + expr.width for at, expr in parts)})
    row: Row = []
    for start, end in pairwise(edges):
        here = [
            build.cut(expr, start - at, end - start) for at, expr in parts if at <= start and end <= at + expr.width
        ]
        row.append(build.total(here) or build.number(0.0, end - start))
    return row


class _Keeper:
    """Rewrites backward expressions so that they read only what is kept, and decides what to keep."""

    def __init__(self, program: Program, *, recompute: bool) -> None:
        self.program, self.recompute = program, recompute
        self.saved: Row = []
        self._done: dict[Expr, Expr] = {}
        self._after = {
            expr: program.build.leaf(Kind.AFTER, number, expr.width, offset=at)
            for number, row in enumerate(program.after)
            for at, expr in placed(row)
            if not expr.leaf and expr.value is None
        }

    def rows(self, rows: list[Row]) -> list[Row]:
        return [[self.program.build.rebuild(expr, self._replace, self._done) for expr in row] for row in rows]

    def _replace(self, expr: Expr) -> Expr | None:
        """A forward value as it is read backward; None for what is built from other values."""
        if expr in self._after:
            return self._after[expr]
        if self.recompute:
            return None
        if expr.leaf:
            return self._save(expr) if expr.leaf.kind in (Kind.HOISTED, Kind.PRODUCT) else expr
        if not expr.args or _is_backward(expr):
            return None
        if expr.op in CHEAP and not any(self._out_of_reach(arg) for arg in expr.args):
            return None
        return self._save(expr) if self._needs_more(expr) else None

    def _out_of_reach(self, expr: Expr) -> bool:
        return expr.leaf is not None and expr.leaf.kind in (Kind.HOISTED, Kind.PRODUCT)

    def _needs_more(self, expr: Expr) -> bool:
        """Whether an expression could be computed again only from values that are not kept."""
        if expr in self._after or (expr.leaf and expr.leaf.kind not in (Kind.HOISTED, Kind.PRODUCT)):
            return False
        return self._out_of_reach(expr) or any(self._needs_more(arg) for arg in expr.args)

    def _save(self, expr: Expr) -> Expr:
        self.saved.append(expr)
        return self.program.build.leaf(Kind.SAVED, len(self.saved) - 1, expr.width)


BACKWARD = (Kind.GRAD_AFTER, Kind.GRAD_EMITTED, Kind.GRAD_LEFT)


def _is_backward(expr: Expr) -> bool:
    return any(part.leaf and part.leaf.kind in BACKWARD for part in closure([expr]))
