"""Counts all n-grams of some texts, order by order, with memory bounded by the number of distinct n-grams.

    key of w_1 … w_n = rank(w_1 … w_{n-1}) · V + w_n           rank: its place among the sorted (n-1)-grams

So an n-gram of any order is one integer, n-grams with the same context stand side by side, and their order is that of a
trie. The texts are read in chunks, once for each order: the keys of a chunk are sorted into a run of distinct ones, and
the runs of all chunks are merged. Between orders the rank of the n-gram that begins at each token is kept, in a file if
there are many. The suffix of an n-gram, w_2 … w_n, is the (n-1)-gram that begins one token later.    V words, E n-grams
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.data import Examples, Ragged
from weft.models.ngram.runs import MEMORY_ENTRIES, Integers, Longs, Shelf, SortedRun, merge
from weft.text import SOS

CHUNK_TOKENS: Final = 2_000_000
"""Tokens whose n-grams are sorted together."""

NO_NGRAM: Final = -1
"""The rank at a token where no n-gram begins, because its text ends before."""


@dataclass(frozen=True)
class Level:
    """The n-grams of one order: sorted keys (E,), how often each occurs (E,), and the index of each one's suffix among
    the n-grams of the order below (E,). At order 1 the entries are all V words, and the index is the word."""

    keys: Longs
    counts: Integers
    suffixes: Integers

    @property
    def size(self) -> int:
        return len(self.keys)


def read_chunks(column: Ragged, chunk: int) -> Iterator[NDArray[np.int32]]:
    """Yield whole texts, laid end to end, of about `chunk` tokens together; each text begins with the start token.

    A row that begins with another token continues the text of the row before, whose last token it repeats.
    """
    ends = np.cumsum(column.lengths)
    begin, rows = 0, len(column)
    while begin < rows:
        before = int(ends[begin - 1]) if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + chunk)))
        while end < rows and column.lengths[end] and column[end][0] != SOS:
            end += 1
        tokens = column.join(range(begin, end))
        firsts = (ends[begin:end] - column.lengths[begin:end] - before)[column.lengths[begin:end] > 0]
        repeated = firsts[tokens[firsts] != SOS]
        yield np.delete(tokens, repeated) if len(repeated) else tokens
        begin = end


@dataclass
class NgramCounter:
    """Counts the n-grams of training examples; each call of `next_level` reads the texts once."""

    examples: Examples
    vocabulary: int
    chunk: int = CHUNK_TOKENS
    memory: int = MEMORY_ENTRIES
    levels: list[Level] = field(default_factory=list)
    tokens: int = 0
    """Tokens of all texts, start tokens included."""

    def __post_init__(self) -> None:
        self.shelf = Shelf(self.memory)

    def next_level(self, *, last: bool) -> Level:
        """Count the n-grams of the next order; the `last` one needs no ranks."""
        level = self._merge_runs(len(self.levels) + 1, last=last) if self.levels else self._count_words()
        self.levels.append(level)
        return level

    def _chunks(self) -> Iterator[NDArray[np.int32]]:
        pieces = self.examples.pieces
        return read_chunks(self.examples.columns["tokens"] if pieces is None else pieces.text, self.chunk)

    def _count_words(self) -> Level:
        words = np.arange(self.vocabulary, dtype=np.int64)
        counts = np.zeros(self.vocabulary, dtype=np.int64)
        for tokens in self._chunks():
            counts += np.bincount(tokens, minlength=self.vocabulary)
            self.tokens += len(tokens)
        return Level(words, counts, np.zeros_like(words))

    def _merge_runs(self, order: int, *, last: bool) -> Level:
        """Sort the n-grams of each chunk, merge them, and store the rank of the n-gram at each token."""
        names, runs = [], []
        for number, tokens in enumerate(self._chunks()):
            before = tokens if order == 2 else self.shelf.get(f"ranks{number}")
            places, keys = self._keys(tokens, before, order)
            run, inverse = sort_run(keys, before[places + 1], inverse=not last)
            if self.tokens < 2**31:  # all counts are below
                run = run._replace(counts=run.counts.astype(np.int32))
            for name, array in run._asdict().items():
                self.shelf.put(f"run{number}.{name}", array)
            if not last:
                self.shelf.put(f"ranks{number}", spread(inverse, places, len(tokens)))
            names.append(number)
        for number in names:
            runs.append(SortedRun(*(self.shelf.get(f"run{number}.{name}") for name in SortedRun._fields)))
        merged = merge(runs, self.shelf, f"level{order}")
        for number, run in zip(names, runs, strict=True):
            if not last:
                local = self.shelf.get(f"ranks{number}")
                self.shelf.put(f"ranks{number}", _rank(local, np.searchsorted(merged.keys, run.keys)))
            for name in SortedRun._fields:
                self.shelf.drop(f"run{number}.{name}")
        return Level(*merged)

    def _keys(self, tokens: NDArray[np.int32], before: NDArray[Any], order: int) -> tuple[Longs, Longs]:
        """Return the places at which an n-gram begins, and its key: the rank of its context and its last word."""
        last = tokens[order - 1 :]
        places = np.flatnonzero((before[: len(last)] >= 0) & (last != SOS))
        return places, before[places].astype(np.int64) * self.vocabulary + last[places]


def sort_run(keys: Longs, suffixes: NDArray[Any], *, inverse: bool) -> tuple[SortedRun, NDArray[np.int32]]:
    """Return the distinct keys with their counts and suffixes, and for each key its index among them if requested."""
    order = np.argsort(keys)
    keys = keys[order]
    changes = np.concatenate(([True], keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, dtype=bool)
    first = np.flatnonzero(changes)
    run = SortedRun(keys[first], np.diff(first, append=len(keys)), suffixes[order[first]])
    index = np.empty(len(keys) if inverse else 0, dtype=np.int32)
    if inverse:
        index[order] = np.cumsum(changes, dtype=np.int32) - 1
    return run, index


def spread(index: NDArray[np.int32], places: Longs, size: int) -> NDArray[np.int32]:
    """Return an array with the index at each of the places, and `NO_NGRAM` elsewhere."""
    found = np.full(size, NO_NGRAM, dtype=np.int32)
    found[places] = index
    return found


def _rank(local: NDArray[np.int32], ranks: Longs) -> NDArray[Any]:
    """Return the rank in all texts for each index in the run of a chunk."""
    kind = np.int32 if not len(ranks) or ranks[-1] < 2**31 else np.int64
    return np.append(ranks, NO_NGRAM).astype(kind)[local]  # NO_NGRAM as an index is the last entry
