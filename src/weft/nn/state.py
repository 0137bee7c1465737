"""State is a value: a tensor, or nested tuples of tensors, with the batch as dimension 0.

It is passed in and returned, never kept on a module. Then beam search, streaming and truncated backpropagation
are the same few lines for every model, and the functions here are the only ones that know its inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

State: TypeAlias = Any
"""A tensor, None, or a tuple (named or not) of states. Recursive, so the type checker cannot help with it."""


class Shared(NamedTuple):
    """What belongs to a sentence and not to a hypothesis: kept once, and looked up by row.

    value has the sentences as dimension 0 and may be nested; rows (N,) says whose hypothesis each row is. Where every
    sentence has `each` rows, one after the other, nothing needs to be looked up; 0 promises nothing.
    """

    value: State
    rows: Tensor
    each: int = 0

    def expand(self) -> State:
        """The value of every row, with dimension 0 of size N; a copy, so take it late."""
        return select_rows(self.value, self.rows)

    def meet(self, x: Tensor) -> tuple[Tensor, State]:
        """x (N, D) -> (A, K, D) beside the value of size A: K rows of a sentence beside what they share, or 1 of N."""
        if self.each:
            return x.view(-1, self.each, x.size(-1)), self.value
        return x[:, None], self.expand()


def select_rows(state: State, rows: Tensor) -> State:
    """The state whose row i is row rows[i] of the given one. Rows may repeat and may be left out."""
    if isinstance(state, Shared):
        return Shared(state.value, state.rows.index_select(0, rows))
    if isinstance(state, tuple):
        return rebuild(state, [select_rows(part, rows) for part in state])
    return map_state(lambda tensor: tensor.index_select(0, rows), state)


def detach(state: State) -> State:
    """The same numbers without their history: where truncated backpropagation through time cuts."""
    return map_state(torch.Tensor.detach, state)


def map_state(function: Callable[..., Tensor], state: State, *others: State) -> State:
    """Apply a function to the tensors that stand at the same place of one or more states of one structure."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return function(state, *others)
    if isinstance(state, tuple):
        return rebuild(state, [map_state(function, *parts) for parts in zip(state, *others, strict=True)])
    raise TypeError(f"a state is a tensor, None or a tuple of states, not {type(state).__name__}")


def leaves_of(state: State) -> list[Tensor]:
    """The tensors of a state, in the order of its fields."""
    leaves: list[Tensor] = []
    map_state(lambda tensor: leaves.append(tensor) or tensor, state)  # type: ignore[func-returns-value]
    return leaves


def with_leaves(state: State, leaves: list[Tensor]) -> State:
    """A state of the same structure with other tensors."""
    remaining = iter(leaves)
    return map_state(lambda _: next(remaining), state)


def rebuild(like: tuple[State, ...], parts: list[State]) -> State:
    """Named tuples take their fields one by one, plain ones a sequence."""
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
