"""The C of a product that attends, forward and backward, for each row of a block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from weft.nn.native.library import CFile
from weft.nn.recurrent.engine.adjoint import pure_state
from weft.nn.recurrent.engine.argument import KEYS, VALUES, Argument, Kind
from weft.nn.recurrent.engine.program import Product

if TYPE_CHECKING:
    from weft.nn.recurrent.engine.c_source import CSource

ATTENTION: Final = CFile("weft.nn.recurrent.engine", "attention.c")
"""The text before a recurrence that attends."""

BY_SOURCE: Final = (Kind.ATTENTION, Kind.GRAD_SCORES)
"""Buffers with a column for each position of the source."""

SOURCE_STEPS: Final = "call->source_steps"
"""The number of these columns."""


def attend_forward(source: CSource, number: int) -> list[str]:
    """The weights and the context of every row."""
    product = source.program.products[number]
    context = f"product{number} + i * padded({source.size(product.width)})"
    return source.each_row(
        *_source(source, number, product),
        f"attend(&source, query, attention{number} + at * {SOURCE_STEPS}, {context});",
    )


def attend_backward(source: CSource, number: int, gradient: str) -> list[str]:
    """The gradients of the scores and of the query of every row; `gradient` is the text of that of its context."""
    product = source.program.products[number]
    depth = source.size(product.depth)
    keys = over = "0"
    if product.attention and product.attention.over is not None:
        keys = f"grad_keys0 + b * {SOURCE_STEPS} * {depth}"
        over = f"grad_over{number} + block * {depth}"
    at = f"{number} + at * {SOURCE_STEPS}"
    return source.each_row(
        *_source(source, number, product, backward=True),
        f"attend_back(&source, {gradient}, query, attention{at}, grad_scores{at},",
        f"    grad_left{number} + i * padded({depth}), {keys}, {over});",
    )


def _source(source: CSource, number: int, product: Product, *, backward: bool = False) -> list[str]:
    """The structure for a row b, and its query."""
    assert product.attention is not None
    state, (over, scale, hard) = pure_state(source.program, product.left), product.attention
    depth, width = source.size(product.depth), source.size(product.width)
    if state is not None and not (backward and number in source.adjoint.left):
        query = f"s ? history{state} + before * {depth} : start{state} + b * {depth}"
    elif backward:
        query = f"{Argument(Kind.LEFTS, number)} + at * {depth}"
    else:
        query = f"{Argument(Kind.LEFT, number)} + i * padded({depth})"
    vector = "0" if over is None else f"{Argument(Kind.OVER, number)}"
    return [
        "const source_t source = {",
        f"    .keys = {KEYS} + b * {SOURCE_STEPS} * {depth}, .values = {VALUES} + b * {SOURCE_STEPS} * {width},",
        f"    .over = {vector}, .count = call->source_lengths[b], .steps = {SOURCE_STEPS}, .depth = {depth},",
        f"    .width = {width}, .scale = {scale!r}f, .hard = {int(hard)},",
        "};",
        f"const float *query = {query};",
    ]
