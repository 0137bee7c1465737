"""The products of one stage as one product, which is what a GPU does best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from weft.nn.recurrent.engine.expr import Expr, Row, placed, width_of
from weft.nn.recurrent.engine.program import Program

PARTS: Final = (256,)
"""Columns of one part of a backward product's sum, the first that fits."""


@dataclass(frozen=True, eq=False)
class Stage:
    """The products of one stage as one: left sides side by side (K), results side by side (N)."""

    lefts: list[Row]
    products: list[int]
    program: Program = field(repr=False)

    @property
    def parts(self) -> int:
        """Into how many the sum of a backward product is cut, so that more of a GPU works on it."""
        part = next((part for part in PARTS if self.width % part == 0 and self.width > part), self.width)
        return max(1, self.width // max(1, part))

    @property
    def depth(self) -> int:
        return sum(width_of(row) for row in self.lefts)

    @property
    def width(self) -> int:
        return sum(self.program.products[number].width for number in self.products)

    def placed_lefts(self) -> Iterator[tuple[int, Expr]]:
        """Each part of the left sides with the column at which it begins."""
        return placed([expr for row in self.lefts for expr in row])

    def left_at(self, number: int) -> int:
        """The column at which a product's left side begins."""
        position = self.lefts.index(self.program.products[number].left)
        return sum(width_of(row) for row in self.lefts[:position])

    def result_at(self, number: int) -> int:
        """The column at which a product's result begins."""
        before = self.products[: self.products.index(number)]
        return sum(self.program.products[other].width for other in before)

    def speaks_for_left(self, number: int) -> bool:
        """Whether a product is the first of those with its left side, whose gradient comes out summed over them."""
        products = self.program.products
        return next(n for n in self.products if products[n].left == products[number].left) == number


def group_products(program: Program, numbers: Iterable[int]) -> Stage:
    """Products that can be done at once."""
    chosen = list(numbers)
    lefts: list[Row] = []
    for number in chosen:
        if program.products[number].left not in lefts:
            lefts.append(program.products[number].left)
    return Stage(lefts, chosen, program)
