"""Teacher forcing as tensors: every token of a row predicts the next, and only real ones count.

    row       <s> a b </s>            tokens    <s> a b
                                      expected      a b </s>

The tensors are made on the processor, so that a loss need not read from a GPU which positions are real.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data import Ragged, Side
from weft.models import AnyLanguageModel, MaskedLanguageModel, PairModel
from weft.nn import Packing
from weft.tasks.task import Loss, Rows
from weft.text import PAD, UNK

IGNORED: Final = -1
"""The expected token at a position that adds nothing to the loss."""


class Shifted(NamedTuple):
    """tokens (B, T) and lengths (B); expected (M), the next token of each real position, rows laid end to end; places
    (M) of those positions among all B · T, or None where every position is real. Packed, tokens are (M); positions that
    only fill the capacity of the batch expect nothing."""

    tokens: Tensor
    lengths: Tensor | Packing
    expected: Tensor
    places: Tensor | None


def lay(column: Ragged, rows: Rows, *, packed: bool, capacity: Side | None = None) -> tuple[Tensor, Tensor | Packing]:
    """The rows as padded tokens (B, T) with lengths (B), or packed: tokens (N) and how they lie."""
    lengths = column.lengths[np.asarray(rows, dtype=np.int64)]
    return lay_tokens(column.join(rows).astype(np.int64), lengths, packed=packed, capacity=capacity)


def lay_tokens(
    flat: NDArray[np.int64], lengths: NDArray[np.int64], *, packed: bool, capacity: Side | None = None
) -> tuple[Tensor, Tensor | Packing]:
    """`lay` for the tokens (N) of rows of these lengths (B)."""
    if packed:
        return _pack(flat, lengths, capacity)
    tokens = np.zeros((len(lengths), lengths.max(initial=0)), dtype=np.int64)
    tokens[np.arange(tokens.shape[1]) < lengths[:, None]] = flat
    return torch.from_numpy(tokens), torch.from_numpy(lengths)


def _pack(flat: NDArray[np.int64], lengths: NDArray[np.int64], capacity: Side | None) -> tuple[Tensor, Packing]:
    """Tokens end to end and how they lie; padding fills them up to the capacity, if one is given."""
    if capacity is None:
        return torch.from_numpy(flat), Packing.of(lengths)
    return torch.from_numpy(_fill(flat, capacity.tokens, PAD)), Packing.filled(lengths, **capacity._asdict())


def _fill(flat: NDArray[np.int64], size: int, value: int) -> NDArray[np.int64]:
    return np.pad(flat, (0, size - len(flat)), constant_values=value)


def shift(column: Ragged, rows: Rows, *, packed: bool, capacity: Side | None = None) -> Shifted:
    """The rows without their last token, and without their first as what is expected."""
    full = column.lengths[np.asarray(rows, dtype=np.int64)]
    flat, ends = column.join(rows).astype(np.int64), np.cumsum(full)
    first, last = np.zeros(len(flat), dtype=bool), np.zeros(len(flat), dtype=bool)
    first[(ends - full)[full > 0]] = True
    last[(ends - 1)[full > 0]] = True
    expected, lengths = flat[~first], np.maximum(full - 1, 0)
    if packed:
        expected = expected if capacity is None else _fill(expected, capacity.tokens, IGNORED)
        return Shifted(*_pack(flat[~last], lengths, capacity), torch.from_numpy(expected), None)
    real = np.arange(lengths.max(initial=0)) < lengths[:, None]
    places = None if real.all() else torch.from_numpy(np.flatnonzero(real))
    return Shifted(*lay_tokens(flat[~last], lengths, packed=False), torch.from_numpy(expected), places)


def predictions(column: Ragged, rows: Rows) -> int:
    """How many tokens of these rows are predicted: all but the first of each."""
    return int(np.maximum(column.lengths[np.asarray(rows, dtype=np.int64)] - 1, 0).sum())


@runtime_checkable
class Expecting(Protocol):
    """A batch that says what is expected where."""

    @property
    def expected(self) -> Tensor: ...

    @property
    def places(self) -> Tensor | None: ...

    @property
    def count(self) -> int: ...


def count_unknown(batch: Expecting) -> int:
    """How many of the expected tokens are the unknown one."""
    return int((batch.expected == UNK).sum())


def token_loss(
    model: AnyLanguageModel | MaskedLanguageModel | PairModel,
    hidden: Tensor,
    batch: Expecting,
    *,
    label_smoothing: float = 0.0,
) -> Loss:
    """hidden (B, T, D), or packed (M, D) -> the loss of the expected tokens."""
    flat = hidden if hidden.dim() == 2 else hidden.flatten(0, 1)
    if batch.places is not None:
        flat = flat.index_select(0, batch.places)
    total = model.output.loss(flat, batch.expected, label_smoothing=label_smoothing)
    return Loss(total, batch.count)
