"""A record of every call of attention in a block of code, from which its weights are computed.

    with record_attention() as calls, torch.no_grad():
        model(tokens, lengths)
    calls[0].weights(head=2)

`attend` announces its calls to the recorder, which a context variable holds: no hook is put on a module, and other
threads are not recorded. While a recorder listens, models take no path around `attend`: no stack in C, no kernel of a
single query, no CUDA graph. All of them give the numbers of `attend`.
B batch, H heads, Tq queries, Tk keys, m size of a head's queries and keys, v of its values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from weft.nn.attention.scores import ScoreFunction
from weft.nn.attention.weights import may_attend, weigh

AttendsTo = Literal["self", "memory", "pooling"]
"""The sequence that queries attend to: their own, that of an encoder, or, for learned queries, a sequence to be pooled.
A module that passes itself to `attend` has it as its attribute `attends_to`; without one it is "self"."""


class AttentionCall(NamedTuple):
    """One call: queries (B, H, Tq, m), keys (B, H, Tk, m), values (B, H, Tk, v), the context (B, H, Tq, v) that was
    returned, and the settings of `attend`. Attention without heads has H = 1."""

    module: nn.Module | None
    """The module that attends; None where `attend` was called without one."""
    query: Tensor
    key: Tensor
    value: Tensor
    context: Tensor
    mask: Tensor | None
    score: ScoreFunction
    scale: float | None
    causal: bool
    hard: bool

    @property
    def heads(self) -> int:
        return self.query.size(1)

    @property
    def attends_to(self) -> AttendsTo:
        found: AttendsTo = getattr(self.module, "attends_to", "self")
        return found

    def weights(self, *, head: int, row: int = 0, every: int = 1) -> Tensor:
        """The weights (Tq, Tk) of one head in one row of the batch, before dropout; with `every`, of each `every`-th
        query."""
        query, key = (part[min(row, part.size(0) - 1), head] for part in (self.query, self.key))
        shape = torch.Size((query.size(0), key.size(0)))
        mask = None if self.mask is None else _slice(self.mask, row, head)
        may = may_attend(shape, mask, self.causal, query.device)
        scores = self.score(query[::every], key)
        scores = scores if self.scale is None else scores * self.scale
        return weigh(scores, None if may is None else may.expand(shape)[::every], hard=self.hard)


def _slice(mask: Tensor, row: int, head: int) -> Tensor:
    """mask, of at most the dimensions (B, H, Tq, Tk), each of which may be 1 -> that of one row and head."""
    while mask.dim() > 2:
        mask = mask[min(row if mask.dim() == 4 else head, mask.size(0) - 1)]
    return mask


_calls: ContextVar[list[AttentionCall] | None] = ContextVar("attention calls", default=None)


def recording() -> bool:
    """Whether calls of attention are recorded here. Compiled code is not: it stays what it was compiled to."""
    return not torch.compiler.is_compiling() and _calls.get() is not None


@contextmanager
def record_attention() -> Iterator[list[AttentionCall]]:
    """Append each call of attention inside the block to the list that the block gets."""
    calls: list[AttentionCall] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def announce(call: AttentionCall) -> None:
    """Append a call to the record. Tensors without heads get one head; a call of more dimensions is left out.

    Tensors are copied, because a search writes states and caches in place.
    """
    calls, extra = _calls.get(), 4 - call.query.dim()
    if calls is None or extra < 0:
        return
    tensors: dict[str, Any] = {
        name: _with_heads(getattr(call, name), extra).clone() for name in ("query", "key", "value", "context")
    }
    mask = None if call.mask is None else call.mask.clone()
    if mask is not None and extra == 1 and mask.dim() == 3:
        mask = mask[:, None]
    calls.append(call._replace(**tensors, mask=mask))


def _with_heads(x: Tensor, extra: int) -> Tensor:
    """(B, T, D) -> (B, 1, T, D), (T, D) -> (1, 1, T, D)."""
    return x if not extra else x[:, None] if extra == 1 else x[None, None]
