"""Rows of token ids of different lengths, stored end to end.

    row i = values[offsets[i] : offsets[i+1]]           values int32 (tokens), offsets int64 (N+1)

A large text has more tokens than fit in memory beside a model. Above a limit the values go to a temporary file and each
row is read when it is asked for. The file is not mapped, because mapped pages count as memory of the process.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.errors import Fault

if TYPE_CHECKING:
    from torch import Tensor

Ids: TypeAlias = Sequence[int] | NDArray[np.int32]

MEMORY = 32_000_000
"""Tokens that are kept in memory."""

_CHUNK = 1 << 20
"""Tokens that are written to the file at a time."""

_BYTES = 4
"""Bytes per token."""


class Ragged:
    """N rows of ids; made by `RaggedBuilder` or `Ragged.from_lists`, never changed afterwards."""

    def __init__(self, values: NDArray[np.int32] | IO[bytes], offsets: NDArray[np.int64]) -> None:
        self._values = values
        self._offsets = offsets
        self.lengths: NDArray[np.int64] = np.diff(offsets)
        if not isinstance(values, np.ndarray):
            weakref.finalize(self, values.close)

    @classmethod
    def from_lists(cls, rows: Iterable[Ids], *, memory: int = MEMORY) -> Ragged:
        """The given rows; above `memory` tokens they are kept in a file."""
        builder = RaggedBuilder(memory=memory)
        builder.extend(rows)
        return builder.build()

    @property
    def size(self) -> int:
        """Tokens in all rows together."""
        return int(self._offsets[-1])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        """A copy of one row (T,)."""
        position = range(len(self))[row]
        return self.flat(int(self._offsets[position]), int(self._offsets[position + 1]))

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self[row] for row in range(len(self)))

    def flat(self, start: int, stop: int) -> NDArray[np.int32]:
        """A copy of tokens `start` to `stop` of all rows laid end to end, for models of running text."""
        start, stop, _ = slice(start, stop).indices(self.size)
        if isinstance(self._values, np.ndarray):
            return self._values[start:stop].copy()
        return np.frombuffer(_read(self._values, start, max(stop - start, 0)), dtype=np.int32)

    def join(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int32]:
        """The given rows laid end to end, in one go."""
        chosen = np.asarray(rows, dtype=np.int64)
        starts, lengths = self._offsets[:-1][chosen], self.lengths[chosen]
        if isinstance(self._values, np.ndarray):
            before = np.cumsum(lengths) - lengths
            positions = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
            return self._values.take(positions)
        file = self._values
        parts = (_read(file, start, count) for start, count in zip(starts.tolist(), lengths.tolist(), strict=True))
        return np.frombuffer(bytearray().join(parts), dtype=np.int32)


def _read(file: IO[bytes], start: int, count: int) -> bytearray:
    """`count` tokens of a file."""
    data = bytearray()
    while len(data) < count * _BYTES:
        part = _read_at(file, start * _BYTES + len(data), count * _BYTES - len(data))
        if not part:
            raise Fault("the temporary file of tokens has been cut short", cure="train again, with more disk space")
        data += part
    return data


def _read_at(file: IO[bytes], position: int, size: int) -> bytes:
    """Where the system can, without moving the pointer that forked processes share; Windows has no forks."""
    if hasattr(os, "pread"):
        return os.pread(file.fileno(), size, position)
    file.seek(position)
    return file.read(size)


class RaggedBuilder:
    """Collects rows one by one: `append` and `extend`, then `build` once."""

    def __init__(self, *, memory: int = MEMORY) -> None:
        self._memory = memory
        self._values = array("i")
        self._offsets = array("q", [0])
        self._file: IO[bytes] | None = None

    def append(self, ids: Ids) -> None:
        """Add one row."""
        if isinstance(ids, np.ndarray):
            self._values.frombytes(np.ascontiguousarray(ids, dtype=np.int32).tobytes())
        elif isinstance(ids, array):
            self._values.extend(ids)
        else:
            self._values.fromlist(list(ids))
        self._offsets.append(self._offsets[-1] + len(ids))
        if len(self._values) > (self._memory if self._file is None else _CHUNK):
            self._spill()

    def extend(self, rows: Iterable[Ids]) -> None:
        """Add many rows."""
        for ids in rows:
            self.append(ids)

    def build(self) -> Ragged:
        """The rows collected so far."""
        offsets = np.frombuffer(self._offsets, dtype=np.int64)
        if self._file is None:
            return Ragged(np.frombuffer(self._values, dtype=np.int32), offsets)
        self._spill()
        return Ragged(self._file, offsets)

    def _spill(self) -> None:
        """Move the values in memory to the file."""
        try:
            if self._file is None:
                self._file = tempfile.TemporaryFile(prefix="weft-")  # noqa: SIM115
            self._values.tofile(self._file)
            self._file.flush()
        except OSError as error:
            what = f"no room for a temporary file of tokens: {error}"
            raise Fault(
                what, where=tempfile.gettempdir(), cure="free some space, or set TMPDIR to another disk"
            ) from None
        self._values = array("i")


def pad(column: Ragged, rows: Sequence[int] | NDArray[np.int64], value: int = 0) -> tuple[Tensor, Tensor]:
    """The given rows as ids (B, T), with `value` past each row's end, and lengths (B,); T is the longest length."""
    import torch

    lengths = column.lengths[np.asarray(rows, dtype=np.int64)]
    longest = int(lengths.max(initial=0))
    padded = np.full((len(lengths), longest), value, dtype=np.int64)
    padded[np.arange(longest) < lengths[:, None]] = column.join(rows)
    return torch.from_numpy(padded), torch.from_numpy(lengths)
