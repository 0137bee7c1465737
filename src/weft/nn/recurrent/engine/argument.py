"""The tensors of a recurrence by what they hold: an argument of a kernel is a kind and a number.

`Argument(Kind.WEIGHT, 0)` is the weight of product 0. Its text, `weight0`, is only the name of a variable in generated
code.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Kind(StrEnum):
    """The content of a tensor; in brackets what its number counts."""

    HOISTED = "hoisted"
    """[hoisted value] Made from the input before the loop, for all steps."""
    SHIFT = "shift"
    """[hoisted value] Its bias, which the kernels add."""
    START = "start"
    """[state] Before the first step."""
    CONSTANT = "constant"
    """[constant] A parameter that the loop reads: the weight or bias of a product, or a vector."""
    WEIGHT = "weight"
    """[product]"""
    BIAS = "bias"
    """[product]"""
    VECTOR = "vector"
    """[constant] Read by column, the same in every row."""
    HISTORY = "history"
    """[state] After each step."""
    EMITTED = "emitted"
    """[emitted value] Of each step, where it is not a state."""
    FINAL = "final"
    """[state] After the last step of each row."""
    KEPT = "kept"
    """[hoisted value] Kept for the backward pass, in the place of the hoisted value."""
    SAVED = "saved"
    """[0] Everything else that is kept for the backward pass."""
    STATE = "state"
    """[state] Before this step."""
    AFTER = "after"
    """[state] After this step."""
    LEFT = "left"
    """[product; in Triton stage] The left side of a product in this step."""
    LEFTS = "lefts"
    """[product] The left side of a product, of all steps."""
    PRODUCT = "product"
    """[product; in Triton stage] The result of a product in this step."""
    BEFORE = "before"
    """[state] Before each step, of all steps."""
    KEYS = "keys"
    """[0] What every step attends to (B, S, n)."""
    VALUES = "values"
    """[0] (B, S, n)"""
    SOURCE_LENGTHS = "source_lengths"
    """[0] The real positions of each row of these (B,)."""
    OVER = "over"
    """[product] The vector of an additive score."""
    ATTENTION = "attention"
    """[product] The weights of each step over the source."""
    GRAD_HOISTED = "grad_hoisted"
    SUM_HOISTED = "sum_hoisted"
    """[hoisted value] The sum over all steps of its gradient."""
    GRAD_EMITTED = "grad_emitted"
    GRAD_FINAL = "grad_final"
    GRAD_START = "grad_start"
    GRAD_PRODUCT = "grad_product"
    """[product; in Triton stage]"""
    GRAD_LEFT = "grad_left"
    """[product; in Triton stage]"""
    GRAD_VECTOR = "grad_vector"
    """[vector of the layout]"""
    QUERY = "query"
    """[product] In Triton, what it attends with in this step."""
    CONTEXT = "context"
    """[product] In Triton, what it found."""
    GRAD_QUERY = "grad_query"
    GRAD_CONTEXT = "grad_context"
    GRAD_SCORES = "grad_scores"
    """[product] Of each step over the source, with the factor of the scores."""
    GRAD_KEYS = "grad_keys"
    """[0] (B, S, n); of additive scores, which the loop adds up itself."""
    GRAD_VALUES = "grad_values"
    GRAD_OVER = "grad_over"
    """[product]"""
    GRAD_AFTER = "grad_after"
    """[state] The gradient of the state after this step."""
    BEHIND = "behind"
    """[state] The buffer that holds it: the step behind has written it."""
    BEGIN = "begin"
    """[state] In a scan: where a chunk begins, the state; or the gradient that reaches it from the chunk behind."""
    SLOPE = "slope"
    """[state] In a scan: the product of the slopes of a chunk's steps."""
    CARRY = "carry"
    """[state] The gradient of the state before this step, for the next backward step."""


OUTSIDE = frozenset((Kind.HISTORY, Kind.EMITTED, Kind.GRAD_EMITTED))
FLOAT32 = frozenset((Kind.VECTOR, Kind.BIAS, Kind.SHIFT, Kind.OVER, Kind.ATTENTION, Kind.GRAD_KEYS, Kind.GRAD_OVER))
AS_START = frozenset((Kind.START, Kind.FINAL, Kind.GRAD_START, Kind.GRAD_FINAL))
SUMMED = frozenset((Kind.SUM_HOISTED, Kind.GRAD_VECTOR, Kind.GRAD_OVER))
SOURCE = frozenset((Kind.KEYS, Kind.VALUES, Kind.SOURCE_LENGTHS))
GRADIENTS = {
    Kind.HOISTED: Kind.GRAD_HOISTED,
    Kind.EMITTED: Kind.GRAD_EMITTED,
    Kind.FINAL: Kind.GRAD_FINAL,
    Kind.START: Kind.GRAD_START,
    Kind.KEYS: Kind.GRAD_KEYS,
    Kind.VALUES: Kind.GRAD_VALUES,
}


class Argument(NamedTuple):
    """A tensor that a kernel is given."""

    kind: Kind
    number: int

    def __str__(self) -> str:
        return self.kind.value if self.kind is Kind.SAVED else f"{self.kind.value}{self.number}"

    @property
    def is_weight(self) -> bool:
        return self.kind is Kind.WEIGHT

    @property
    def is_outside(self) -> bool:
        """Whether it comes from outside the engine or goes there: it has T steps of every row, padding too."""
        return self.kind in OUTSIDE

    @property
    def is_kept(self) -> bool:
        """Whether the forward pass writes it for the backward pass only."""
        return self.kind in (Kind.KEPT, Kind.SAVED)

    @property
    def is_source(self) -> bool:
        """Whether it is a part of the source: it has no time."""
        return self.kind in SOURCE

    @property
    def is_float32(self) -> bool:
        """Whether it is in float32 whatever the rest is in: what Triton reads by column alone, attention, and sums."""
        return self.kind in FLOAT32

    @property
    def is_like_start(self) -> bool:
        """Whether it has the type of the first states."""
        return self.kind in AS_START

    @property
    def is_summed(self) -> bool:
        """Whether the C adds it up over all steps, each block for itself."""
        return self.kind in SUMMED

    @property
    def gradient(self) -> Argument:
        """The gradient of an input or output."""
        return Argument(GRADIENTS[self.kind], self.number)


SAVED = Argument(Kind.SAVED, 0)
KEYS, VALUES, SOURCE_LENGTHS = (Argument(kind, 0) for kind in (Kind.KEYS, Kind.VALUES, Kind.SOURCE_LENGTHS))


def arguments(kind: Kind, count: int) -> list[Argument]:
    """Arguments of a kind with the numbers 0 … count - 1."""
    return [Argument(kind, number) for number in range(count)]
