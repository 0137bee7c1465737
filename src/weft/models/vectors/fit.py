"""Trains word vectors part by part: in C, or where there is no compiler in plain Python.

Part p of the text is trained with random numbers that depend on the seed and p alone, and the rate falls with the
number of tokens read:  rate · (1 - tokens read / tokens of all epochs). So nothing but the weights passes from a part
to the next, and a training goes on from any of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from weft.data import Examples
from weft.errors import DataError
from weft.models.fitting import Fit, FitOptions, FitStep
from weft.models.vectors.sampling import Noise, build_noise, keep_shares

if TYPE_CHECKING:
    from weft.models.vectors.model import WordVectors

TASK_TOKENS: Final = 4096
"""Tokens that a thread trains on at a time, with random numbers of their own."""

COUNT_TOKENS: Final = 1 << 22
"""Tokens that are counted at a time."""

SLOW: Final = "no C compiler: word vectors are trained in Python, hundreds of times slower"

MIN_RATE_SHARE: Final = 1e-4
"""The share of the rate that is left at the end."""


@dataclass(frozen=True)
class TextPart:
    """Some sentences of the text, and the state of the training at their beginning."""

    tokens: NDArray[np.int32]
    starts: NDArray[np.int64]
    """The position of each sentence's first token, and of the end (rows + 1)."""
    tasks: NDArray[np.int64]
    """The first sentence of each task, and the end (tasks + 1)."""
    done: int
    """Tokens read before this part."""
    seed: int


class VectorFit(Fit):
    """Skip-gram or CBOW over the rows of `examples`, in the order of the text."""

    def __init__(self, model: WordVectors, examples: Examples, options: FitOptions) -> None:
        self.model, self.options = model, options
        self.column = examples.columns["tokens"]
        lengths = self.column.lengths
        self.tokens = int(lengths.sum())
        model.counts.numpy()[:] = count_tokens(examples, model.size)
        counts = model.counts.numpy()
        if int((counts > 0).sum()) < 2:
            found = "one word" if counts.any() else "no word"
            what = f"the training text has {found} of the vocabulary; vectors are learned from words beside each other"
            raise DataError(what, where="data.train", cure="give more text, or lower text.min_count")
        if int(lengths.max(initial=0)) < 2:
            what = "no line of the training text has two words beside each other"
            raise DataError(what, where="data.train", cure='give longer lines, or set data.unit = "stream"')
        self.keep: NDArray[np.float32] = keep_shares(counts, model.config.subsample)
        self.noise: Noise = build_noise(counts)
        self.parts = model.parts
        self.rows = cut_rows(lengths, options.batch_tokens)
        self.every = len(self.rows) - 1
        self.total = options.steps or options.epochs * self.every
        self.all_tokens = max(1, self.tokens * self.total // self.every)

    def step(self, number: int) -> FitStep:
        from weft.models.vectors.native import serves, train_native  # which reads the settings of the model
        from weft.models.vectors.plain import train_plain

        part = self.part(number)
        fast = serves(self.model)
        loss, count = (train_native if fast else train_plain)(self, part)
        self.model.updates += 1
        left = max(MIN_RATE_SHARE, 1 - (part.done + len(part.tokens)) / self.all_tokens)
        return FitStep(
            len(part.tokens),
            loss / count if count else float("nan"),
            self.options.rate * left,
            () if fast or number > 1 else (SLOW,),
        )

    def part(self, number: int) -> TextPart:
        """Part `number`, counted from 1."""
        epoch, place = divmod(number - 1, self.every)
        first, last = int(self.rows[place]), int(self.rows[place + 1])
        lengths = self.column.lengths[first:last]
        starts = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        begin = int(self.column.starts([first])[0])
        tokens = np.ascontiguousarray(self.column.flat(begin, begin + int(starts[-1])), dtype=np.int32)
        done = epoch * self.tokens + begin
        return TextPart(
            tokens,
            starts,
            cut_rows(lengths, TASK_TOKENS),
            done,
            seed=(self.options.seed * 1_000_003 + number) % (1 << 63),
        )


def count_tokens(examples: Examples, words: int) -> NDArray[np.int64]:
    """The number of occurrences (V,) of each word in the examples."""
    column, counts = examples.columns["tokens"], np.zeros(words, dtype=np.int64)
    for start in range(0, column.size, COUNT_TOKENS):
        counts += np.bincount(column.flat(start, start + COUNT_TOKENS), minlength=words)
    return counts


def cut_rows(lengths: NDArray[np.int64], tokens: int) -> NDArray[np.int64]:
    """The first row of each piece, and the end: a piece ends with the row in which its tokens reach `tokens`."""
    ends = np.cumsum(lengths)
    pieces = np.arange(1, int(ends[-1]) // tokens + 1) * tokens if len(ends) else np.zeros(0, dtype=np.int64)
    cuts = np.searchsorted(ends, pieces) + 1
    return np.unique(np.concatenate([[0], cuts, [len(lengths)]])).astype(np.int64)
