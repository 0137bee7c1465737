"""Cuts running text into pieces that begin at other positions in every epoch, so that contexts differ.

    text     a b c d e f g h i j k l m n o p q r        pieces of 4, of a text of 18

    epoch 0  abcd   bcde fghi jklm          opqr        begins at 1
    epoch 1  abcd       defg hijk lmno      opqr        begins at 3

Every epoch has the first and the last piece of each text, so that its ends are learned, and between them as many others
as fit at any offset. So all epochs have the same number of rows of the same lengths: batches are planned once, and the
same CUDA graphs serve all epochs. The tokens are stored once; a piece is a view of them.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from weft.data.ragged import Ragged

_SEED_PART = 0x70696563
"""Part of the seed, so that the offsets differ from the random numbers that shuffle the same epoch."""


class Pieces:
    """Texts, one per row, cut into pieces of `length` predictions; the last token of a piece is only predicted."""

    def __init__(self, text: Ragged, length: int) -> None:
        self.text, self.length = text, length
        predicted = np.maximum(text.lengths - 1, 0)
        # The first and the last, and between them as many as fit at the largest offset, `length - 1`.
        counts = np.where(predicted > length, (predicted - length + 1) // length + 2, 1)
        ends = np.cumsum(counts)
        self._counts, self._firsts, self._lasts = counts, ends - counts, ends - 1
        self._starts = np.cumsum(text.lengths) - text.lengths
        self._last_places = np.maximum(predicted - length, 0)
        self.lengths: NDArray[np.int64] = np.repeat(np.minimum(text.lengths, length + 1), counts)

    def cut(self, epoch: int, *, seed: int) -> Ragged:
        """Return the pieces of an epoch, in the order of the text; they depend on seed and epoch only."""
        offsets = np.random.default_rng((seed, epoch, _SEED_PART)).integers(0, self.length, len(self._counts))
        # Piece k of a text begins at offset + (k - 1) · length, except the first and the last.
        places = np.arange(len(self.lengths)) - np.repeat(self._firsts + 1, self._counts)
        places = places * self.length + np.repeat(offsets, self._counts)
        places[self._lasts] = self._last_places
        places[self._firsts] = 0
        return self.text.view(places + np.repeat(self._starts, self._counts), self.lengths)
