"""State is a value: a tensor, or nested tuples of tensors, with the batch as dimension 0.

It is passed in and returned, never stored on a module. Then beam search, streaming and truncated backpropagation are
the same few lines for every model, and only the functions here depend on its structure.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

State: TypeAlias = Any
"""A tensor, None, or a tuple (named or not) of states. Recursive, so the type checker cannot help with it."""


class Shared(NamedTuple):
    """State of a sentence that all its hypotheses share: stored once, and looked up by row.

    value has the sentences as dimension 0 and may be nested; rows (N,) is the sentence of each row. With `width` > 0
    every sentence has that many rows, one after the other, and nothing needs to be looked up.
    """

    value: State
    rows: Tensor
    width: int = 0

    def expand(self) -> State:
        """The value of every row, with dimension 0 of size N. It is a copy: expand as late as possible."""
        return select_rows(self.value, self.rows)

    def meet(self, x: Tensor) -> tuple[Tensor, State]:
        """x (N, D) -> (A, K, D) and the value of size A, for K rows of a sentence; or (N, 1, D) and `expand()`."""
        if self.width:
            return x.view(-1, self.width, x.size(-1)), self.value
        return x[:, None], self.expand()


def select_rows(state: State, rows: Tensor) -> State:
    """The state whose row i is row rows[i] of the given one. Rows may repeat and may be left out."""
    if isinstance(state, Shared):
        return Shared(state.value, state.rows.index_select(0, rows))
    if isinstance(state, tuple):
        return rebuild(state, [select_rows(part, rows) for part in state])
    return map_state(lambda tensor: tensor.index_select(0, rows), state)


def detach(state: State) -> State:
    """Detach all tensors: truncated backpropagation through time stops here."""
    return map_state(torch.Tensor.detach, state)


def map_state(function: Callable[..., Tensor], state: State, *others: State) -> State:
    """Apply a function to the corresponding tensors of one or more states of the same structure."""
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
    """A tuple of the same type with other parts: named tuples take them one by one, plain ones as a sequence."""
    return type(like)(*parts) if hasattr(like, "_fields") else tuple(parts)
