"""A corpus: records that can be read several times; and the encoded examples made from it."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.data.pieces import Pieces
from weft.data.ragged import Ragged
from weft.data.records import Record
from weft.data.shape import Shape, ShapeCount
from weft.data.split import Fingerprints, fingerprints
from weft.text import UnknownWords

KEPT_CHARACTERS = 32_000_000
"""Records stay in memory if their keys have at most this many characters; a larger file is read again each time."""

TOKENS = "tokens"
"""The column of running text."""


class Survey(NamedTuple):
    """The result of the first pass over a file: its size, a fingerprint of each record's key, and the shape of the
    texts of each side."""

    examples: int
    characters: int
    keys: Fingerprints
    shapes: tuple[Shape, ...] = ()
    unknown: tuple[str, int] | None = None
    """A frequent word that seems to mean unknown, and how often it occurs."""
    content: str | None = None
    """A hash of the content of the file, if it is large enough for its tokens to be cached."""
    strata: Fingerprints | None = None
    """A number for each record's label, if records have one."""
    width: int = 0
    """The numbers of each step, where the input is feature vectors and `characters` counts numbers; the median side in
    pixels, where it is pictures; else 0."""


class Corpus:
    """Records that can be iterated over several times; `mask` selects those whose position in the file is True."""

    def __init__(
        self,
        read: Callable[[], Iterable[Record]],
        *,
        mask: NDArray[np.bool_] | None = None,
        kept: Sequence[Record] | None = None,
    ) -> None:
        self._read, self._mask, self._kept = read, mask, kept

    def __iter__(self) -> Iterator[Any]:
        records = self._read() if self._kept is None else self._kept
        return iter(records) if self._mask is None else compress(records, self._mask)

    @classmethod
    def survey(cls, read: Callable[[], Iterable[Record]], *, keep: int = KEPT_CHARACTERS) -> tuple[Corpus, Survey]:
        """Make the first pass: `read` opens the file, and is called again for later passes if it is large."""
        kept: list[Record] = []
        examples = characters = width = 0
        labels: dict[str, int] = {}
        strata = array("Q")
        shapes: list[ShapeCount] = []
        unknown = UnknownWords()
        sides = array("i")

        def keys() -> Iterator[str]:
            nonlocal examples, characters, width
            for record in read():
                examples += 1
                characters += record.size
                if examples == 1:
                    steps = getattr(record, "steps", None)
                    width = 0 if steps is None else steps.width
                    shapes.extend(ShapeCount() for _ in record.sides)
                for shape, text in zip(shapes, record.sides, strict=True):
                    shape.add(text)
                for text in record.sides or (record.key,):
                    unknown.add(text)
                picture = getattr(record, "picture", None)
                if picture is not None:
                    sides.append(picture.side)
                if characters <= keep:
                    kept.append(record)
                else:
                    kept.clear()
                if record.stratum is not None:
                    if record.stratum not in labels:
                        labels[record.stratum] = int(fingerprints([record.stratum])[0])
                    strata.append(labels[record.stratum])
                yield record.key

        found = fingerprints(keys())
        numbers = np.frombuffer(strata, dtype=np.uint64) if strata else None
        width = int(np.median(np.frombuffer(sides, dtype=np.int32))) if sides else width
        looks = tuple(shape.shape() for shape in shapes)
        survey = Survey(examples, characters, found, looks, unknown.most_frequent(), strata=numbers, width=width)
        return cls(read, kept=kept if characters <= keep else None), survey

    @classmethod
    def of(cls, records: Sequence[Record]) -> Corpus:
        """Records in memory."""
        return cls(lambda: records, kept=records)

    def where(self, mask: NDArray[np.bool_]) -> Corpus:
        """The records whose position in the file is True."""
        return Corpus(self._read, mask=mask, kept=self._kept)

    def includes(self, row: int) -> bool:
        """Whether this corpus contains the record at this position of the file, counted from 0."""
        return self._mask is None or bool(self._mask[row])


@dataclass(frozen=True)
class Examples:
    """Encoded rows: columns of ids, the cost of each row in a padded batch, and the records if they are needed."""

    columns: Mapping[str, Ragged]
    lengths: NDArray[np.integer[Any]]
    records: Sequence[Record] | None = None
    notes: tuple[str, ...] = ()
    running: bool = False
    """The rows are pieces of one text in order; a model carries its state from piece to piece."""

    pieces: Pieces | None = None
    """How rows are cut from running text anew in every epoch, always with the same number and lengths."""

    drawn: tuple[int, int] = (0, 0)
    """The seed and the number of the epoch, for a batch in which something is drawn at random."""

    def __len__(self) -> int:
        return len(self.lengths)

    def epoch(self, number: int, *, seed: int) -> Examples:
        """The examples of an epoch: these, and running text cut anew."""
        columns = self.columns if self.pieces is None else {TOKENS: self.pieces.cut(number, seed=seed)}
        return replace(self, columns=columns, drawn=(seed, number))

    def pick(self, rows: Iterable[int]) -> list[Record]:
        """The records of these rows; empty if they were not kept."""
        return [] if self.records is None else [self.records[int(row)] for row in rows]
