"""The n-grams of texts, hashed into buckets: sequences of words, and parts of words.

    "Sea air" with words = 2, characters 3 to 4:   sea  air  sea+air  ␣se sea ea␣  ␣sea sea␣  ␣ai air ir␣  ␣air air␣

    hash of characters c_0 … c_k    Σ s(c_i) b^i mod 2^64          s mixes the bits of a code, b is odd
    hash of words w_0 … w_k         Σ w_i b^(k-i) mod 2^64
    bucket                          the upper bits of the hash, mixed again, scaled to the number of buckets

The C is in bag.c, the plain version in ngrams_plain.py.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from weft.models.bag.characters import Characters
from weft.models.bag.native import LIBRARY, NativeNgrams, NativeTexts
from weft.models.bag.ngrams_plain import count_plain, weigh_plain

CHUNK_CHARACTERS: Final = 1 << 22
"""Characters of texts whose n-grams are found together."""


class NgramKinds(NamedTuple):
    """The n-grams that are counted: of up to `words` words, and of `least` to `most` characters (0 for none) of a word
    with a blank before and after it."""

    words: int
    least: int
    most: int
    buckets: int


class NgramVocabulary(NamedTuple):
    """The n-grams that have weights: the row of each bucket, -1 without one, and the idf of each row."""

    rows: NDArray[np.int32]
    idf: NDArray[np.float32]


class SparseRows(NamedTuple):
    """A sparse matrix: row i has the `values` at `columns` from `starts[i]` on."""

    starts: NDArray[np.int64]
    columns: NDArray[np.int32]
    values: NDArray[np.float32]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def times(self, dense: Tensor) -> Tensor:
        """The product with a dense matrix."""
        if not len(self.columns):
            return dense.new_zeros(len(self), dense.size(1))
        columns, starts, values = map(torch.from_numpy, (self.columns.astype(np.int64), self.starts[:-1], self.values))
        return F.embedding_bag(columns, dense, starts, mode="sum", per_sample_weights=values)

    @staticmethod
    def join(parts: Iterable[SparseRows]) -> SparseRows:
        """Matrices below each other."""
        starts, columns, values = zip(*parts, strict=True)
        lengths = np.concatenate([np.diff(one) for one in starts])
        return SparseRows(np.concatenate([[0], np.cumsum(lengths)]), np.concatenate(columns), np.concatenate(values))


def find_ngrams(texts: Characters, kinds: NgramKinds, vocabulary: NgramVocabulary | None = None) -> SparseRows:
    """The buckets and counts of the n-grams of each text; with a vocabulary their rows and tf-idf weights.

    tf = 1 + ln count, and the weights of a text have the length 1.
    """
    return SparseRows.join(_find(chunk, kinds, vocabulary) for chunk in _chunks(texts))


def _find(texts: Characters, kinds: NgramKinds, vocabulary: NgramVocabulary | None) -> SparseRows:
    if LIBRARY.load() is None:
        counts = SparseRows(*count_plain(texts, kinds))
        return counts if vocabulary is None else SparseRows(*weigh_plain(counts, *vocabulary))
    arrays = [torch.from_numpy(np.require(array, requirements=["C", "W"])) for array in texts]
    native = NativeTexts(codes=arrays[0], kinds=arrays[1], starts=arrays[2], texts=len(texts))
    rows, idf = (None, None) if vocabulary is None else map(torch.from_numpy, vocabulary)
    ngrams = NativeNgrams(**kinds._asdict(), rows=rows, idf=idf)
    sizes = torch.zeros(len(texts) + 1, dtype=torch.long)
    total = LIBRARY.number("bag_sizes", native, ngrams, sizes[1:])
    begins, used = sizes.cumsum(0), torch.zeros(len(texts), dtype=torch.long)
    columns, values = torch.empty(total, dtype=torch.int32), torch.empty(total)
    LIBRARY.call("bag_count", native, ngrams, begins, used, columns, values)
    starts = np.concatenate([[0], np.cumsum(used.numpy())])
    if starts[-1] < total // 2:  # else the unused rest is small
        columns, values = columns[: starts[-1]].clone(), values[: starts[-1]].clone()
    return SparseRows(starts, columns.numpy()[: starts[-1]], values.numpy()[: starts[-1]])


def _chunks(texts: Characters) -> Iterable[Characters]:
    """Some texts after the other, of at most `CHUNK_CHARACTERS` unless one text alone has more."""
    first = 0
    while first < len(texts) or first == 0:
        limit = texts.starts[first] + CHUNK_CHARACTERS
        last = min(len(texts), max(first + 1, int(np.searchsorted(texts.starts, limit, side="right")) - 1))
        begin, end = texts.starts[first], texts.starts[last]
        yield Characters(texts.codes[begin:end], texts.kinds[begin:end], texts.starts[first : last + 1] - begin)
        first = max(last, 1)
