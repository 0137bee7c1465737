"""Attention inside a recurrence: a step that attends to a source, which is the same at every time step.

    class Reader(AttendingCell):
        def __init__(self, input_size: int, hidden_size: int, *, value_size: int) -> None:
            super().__init__(input_size, hidden_size, key_size=hidden_size, value_size=value_size)
            self.map = nn.Linear(input_size + value_size + hidden_size, hidden_size)

        def step(self, x: Tensor, h: Tensor, source: Source) -> tuple[Tensor, Tensor]:
            u = source.attend(h)
            h = torch.tanh(self.map(torch.cat((x, u, h), dim=-1)))
            return h, h

B batch, S source length, A size of queries and keys, V size of values.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import Tensor

from weft.nn.attention.masks import length_mask
from weft.nn.attention.weights import weigh
from weft.nn.recurrent.cell import Cell
from weft.nn.state import State


class Source(NamedTuple):
    """The memory that a step attends to: keys (B, S, A) and values (B, S, V), of which each row has `lengths` (B,)."""

    keys: Tensor
    values: Tensor
    lengths: Tensor

    def attend(self, query: Tensor, *, over: Tensor | None = None, scale: float = 1.0, hard: bool = False) -> Tensor:
        """query (B, A) -> context (B, V): the mean of the values, weighted by the softmax of scale * score.

        The score is q·k, or with `over`, a vector (A,), over·tanh(q + k). hard: the best value alone, with the gradient
        of the softmax. A row without a source gets zeros.
        """
        recorder = STEP_RECORDER.get()
        if recorder is not None:
            found: Tensor = recorder.record(attend_to, query, *self, over, scale, hard)
            return found
        return attend_to(query, *self, over, scale, hard)

    def to(self, like: Tensor) -> Source:
        """With keys and values of the type of `like`, all on its device."""
        return Source(self.keys.to(like), self.values.to(like), self.lengths.to(like.device, torch.int64))

    def select(self, rows: Tensor) -> Source:
        """The source whose row i is row rows[i] of this one."""
        return Source(*(part.index_select(0, rows) for part in self))


class AttendingCell(Cell):
    """A cell whose step attends: `step(x (B, I), state, source) -> (output (B, O), state)`.

    The step calls `source.attend(query)`, as often as it likes, and does nothing else with the source. What depends on
    the source alone, such as a map of the keys, is computed by the caller, once for all steps.
    """

    def __init__(self, input_size: int, hidden_size: int, *, key_size: int, value_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.key_size, self.value_size = key_size, value_size

    def step(self, x: Tensor, state: State, source: Source) -> tuple[Tensor, State]:  # type: ignore[override]
        """x (B, I), state, source -> output (B, O), next state."""
        raise NotImplementedError(f"{type(self).__name__} must define step(x, state, source) -> (output, state)")

    def forward(self, x: Tensor, state: State, source: Source) -> tuple[Tensor, State]:  # type: ignore[override]
        """The step, so that hooks and wrappers of torch work on a cell."""
        return self.step(x, state, source)


def attend_to(
    query: Tensor, keys: Tensor, values: Tensor, lengths: Tensor, over: Tensor | None, scale: float, hard: bool
) -> Tensor:
    """`Source.attend` in plain torch."""
    return (attention_weights(query, keys, lengths, over, scale, hard)[:, None] @ values)[:, 0]


def attention_weights(
    query: Tensor, keys: Tensor, lengths: Tensor, over: Tensor | None, scale: float, hard: bool
) -> Tensor:
    """query (B, A), keys (B, S, A) -> weights (B, S), zero past the end of a row's source."""
    scores = (keys @ query[..., None])[..., 0] if over is None else torch.tanh(query[:, None] + keys) @ over
    return weigh(scores * scale, length_mask(lengths, keys.size(1)), hard=hard)


class AttendRecorder(Protocol):
    """A recorder of a step as a graph, in which attention is one operation."""

    def record(self, function: Any, *args: Any) -> Tensor: ...


STEP_RECORDER: Final[ContextVar[AttendRecorder | None]] = ContextVar("recorder of a step", default=None)
"""The recorder of the step that is being traced in this thread."""
