"""Rows of token ids of different lengths, stored end to end.

    row i = values[start(i) : start(i) + lengths[i]]           values int32 (tokens), lengths int64 (N)
    start(i) = sum of the lengths before i

A column of numbers, such as feature vectors, stores the bits of float32 numbers in the place of ids; `numbers_of` gives
the numbers back.

A large text has more tokens than fit in memory beside a model. Above a limit the values stay in a file and each row is
read when it is needed. The file is not mapped, because mapped pages count as memory of the process. Then only every
64th start is stored: the starts of tens of millions of rows would need much memory too.
"""

from __future__ import annotations

import os
import tempfile
import weakref
from array import array
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from weft.data.batches import Rows
from weft.errors import Fault

if TYPE_CHECKING:
    from torch import Tensor

Ids: TypeAlias = Sequence[int] | NDArray[np.int32] | NDArray[np.float32]

MEMORY_TOKENS = 32_000_000
"""Tokens that are kept in memory; more go to a file."""

_CHUNK_TOKENS = 1 << 20
"""Tokens that are written to the file at a time."""

_BYTES_PER_TOKEN = 4

_ROWS_PER_START = 64
"""Rows per stored start if the values are in a file."""


class Ragged:
    """N rows of ids in `size` stored tokens; immutable, made by `RaggedBuilder`, `from_lists`, `open` or `view`."""

    def __init__(self, values: NDArray[np.int32] | IO[bytes], lengths: NDArray[np.int32]) -> None:
        self._values = values
        self._whole: Ragged | None = None
        self._width = int(lengths[0]) if len(lengths) and bool((lengths == lengths[0]).all()) else None
        if self._width is not None:
            # Columns with one number per row, such as labels, store one length for all.
            self.lengths: NDArray[np.int64] = np.broadcast_to(np.int64(self._width), lengths.shape)
            self.size = self._width * len(lengths)
        else:
            self._block = 1 if isinstance(values, np.ndarray) else _ROWS_PER_START
            sums = lengths if self._block == 1 else _sums(lengths, self._block)
            self._starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sums, dtype=np.int64)])
            self.lengths = lengths.astype(np.int64)
            self.size = int(self._starts[-1])
        if not isinstance(values, np.ndarray):
            weakref.finalize(self, values.close)

    @classmethod
    def from_lists(cls, rows: Iterable[Ids], *, memory: int = MEMORY_TOKENS) -> Ragged:
        """Store the given rows; above `memory` tokens in a file."""
        builder = RaggedBuilder(memory=memory)
        builder.extend(rows)
        return builder.build()

    @classmethod
    def open(cls, path: Path, lengths: NDArray[np.int32], *, memory: int = MEMORY_TOKENS) -> Ragged:
        """Open a file of tokens with rows of these lengths; up to `memory` tokens are read at once."""
        size = path.stat().st_size
        if lengths.min(initial=0) < 0 or int(lengths.sum(dtype=np.int64)) * _BYTES_PER_TOKEN != size:
            raise ValueError(f"rows of such lengths do not have {size:,} bytes")
        if size <= memory * _BYTES_PER_TOKEN:
            return cls(np.fromfile(path, dtype=np.int32), lengths)
        return cls(path.open("rb"), lengths)

    def view(self, starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> Ragged:
        """Rows of these lengths (N,) that begin at these positions (N,) of the same tokens; they may overlap."""
        made = object.__new__(Ragged)
        made._values, made._width, made._block = self._values, None, 1
        made._starts, made.lengths, made.size = starts, lengths, self.size
        made._whole = self  # kept alive, because it closes the file of values
        return made

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, row: int) -> NDArray[np.int32]:
        """Return a copy of one row (T,)."""
        return self.join([range(len(self))[row]])

    def __iter__(self) -> Iterator[NDArray[np.int32]]:
        return (self[row] for row in range(len(self)))

    def flat(self, start: int, stop: int) -> NDArray[np.int32]:
        """Return a copy of the stored tokens `start` to `stop`; of a view, those of the rows it was made of."""
        start, stop, _ = slice(start, stop).indices(self.size)
        if isinstance(self._values, np.ndarray):
            return self._values[start:stop].copy()
        return np.frombuffer(_read(self._values, start, max(stop - start, 0)), dtype=np.int32)

    def join(self, rows: Sequence[int] | Rows) -> NDArray[np.int32]:
        """Return the given rows, laid end to end."""
        chosen = np.asarray(rows, dtype=np.int64)
        starts, lengths = self.starts(chosen), self.lengths[chosen]
        if isinstance(self._values, np.ndarray):
            before = np.cumsum(lengths) - lengths
            positions = np.repeat(starts - before, lengths) + np.arange(lengths.sum())
            return self._values.take(positions)
        file = self._values
        parts = (_read(file, start, count) for start, count in zip(starts.tolist(), lengths.tolist(), strict=True))
        return np.frombuffer(bytearray().join(parts), dtype=np.int32)

    def starts(self, rows: Sequence[int] | Rows) -> NDArray[np.int64]:
        """The position of the first token of each of these rows (B) among all tokens."""
        chosen = np.asarray(rows, dtype=np.int64)
        if self._width is not None:
            return chosen * self._width
        if self._block == 1 or not len(chosen):
            return self._starts[chosen]
        blocks = chosen // self._block
        before = blocks[:, None] * self._block + np.arange(self._block - 1)
        lengths = self.lengths[np.minimum(before, len(self) - 1)]
        starts: NDArray[np.int64] = self._starts[blocks] + (lengths * (before < chosen[:, None])).sum(1)
        return starts


def _sums(lengths: NDArray[np.int32], block: int) -> NDArray[np.int64]:
    """The sum of every `block` lengths, and of the rest; ten times as fast as `np.add.reduceat`."""
    whole = len(lengths) // block * block
    sums: NDArray[np.int64] = lengths[:whole].reshape(-1, block).sum(1, dtype=np.int64)
    return np.append(sums, lengths[whole:].sum(dtype=np.int64)) if whole < len(lengths) else sums


def _read(file: IO[bytes], start: int, count: int) -> bytearray:
    """Read `count` tokens of a file."""
    data = bytearray()
    while len(data) < count * _BYTES_PER_TOKEN:
        part = _read_at(file, start * _BYTES_PER_TOKEN + len(data), count * _BYTES_PER_TOKEN - len(data))
        if not part:
            raise Fault("the file of tokens has been cut short", cure="train again, with more disk space")
        data += part
    return data


def _read_at(file: IO[bytes], position: int, size: int) -> bytes:
    """Read without moving the file position, which forked processes share; Windows has no pread and no forks."""
    if hasattr(os, "pread"):
        return os.pread(file.fileno(), size, position)
    file.seek(position)
    return file.read(size)


class RaggedBuilder:
    """Collects rows one by one: `append` and `extend`, then `build` once.

    With a `path` all values go to that file, which stays; else to a temporary file if they are too many.
    """

    def __init__(self, *, memory: int = MEMORY_TOKENS, path: Path | None = None) -> None:
        self._memory = memory if path is None else _CHUNK_TOKENS
        self._path = path
        self._values = array("i")
        self._lengths = array("i")
        self._file: IO[bytes] | None = None

    def append(self, ids: Ids) -> None:
        """Add one row."""
        if isinstance(ids, np.ndarray):
            self._values.frombytes(np.ascontiguousarray(ids, dtype=_stored(ids)).tobytes())
        elif isinstance(ids, array):
            self._values.extend(ids)
        else:
            self._values.fromlist(list(ids))
        self._lengths.append(len(ids))
        if len(self._values) > (self._memory if self._file is None else _CHUNK_TOKENS):
            self._spill()

    def extend(self, rows: Iterable[Ids]) -> None:
        """Add many rows."""
        for ids in rows:
            self.append(ids)

    def __len__(self) -> int:
        return len(self._lengths)

    def build(self) -> Ragged:
        """Return the rows collected so far."""
        if self._path is not None:
            return Ragged.open(self._path, self.finish())
        lengths = np.frombuffer(self._lengths, dtype=np.int32)
        if self._file is None:
            return Ragged(np.frombuffer(self._values, dtype=np.int32), lengths)
        self._spill()
        return Ragged(self._file, lengths)

    def finish(self) -> NDArray[np.int32]:
        """Write the rest to the `path`, for `Ragged.open` in another process; returns the lengths of the rows (N,)."""
        self._spill()
        assert self._file is not None
        self._file.close()
        return np.frombuffer(self._lengths, dtype=np.int32)

    def _spill(self) -> None:
        """Move the values in memory to the file."""
        try:
            if self._file is None:
                self._file = self._path.open("wb") if self._path else tempfile.TemporaryFile(prefix="weft-")  # noqa: SIM115
            self._values.tofile(self._file)
            self._file.flush()
        except OSError as error:
            what = f"cannot write a file of tokens: {error}"
            where = str(self._path.parent) if self._path else tempfile.gettempdir()
            setting = "WEFT_CACHE" if self._path else "TMPDIR"
            raise Fault(what, where=where, cure=f"free some space, or set {setting} to another disk") from None
        self._values = array("i")


def _stored(ids: NDArray[Any]) -> type[np.generic]:
    """The type of stored values with the same bytes: float32 numbers are stored as they are."""
    return np.float32 if ids.dtype == np.float32 else np.int32


def numbers_of(values: NDArray[np.int32]) -> NDArray[np.float32]:
    """The float32 numbers that were stored in the place of ids."""
    return values.view(np.float32)


def pad_numbers(column: Ragged, rows: Sequence[int] | Rows, width: int) -> tuple[Tensor, Tensor]:
    """Return rows of feature vectors as (B, T, D), zero past a row's end, and their lengths (B,) in steps."""
    import torch

    lengths = column.lengths[np.asarray(rows, dtype=np.int64)] // width
    longest = int(lengths.max(initial=0))
    padded = np.zeros((len(lengths), longest, width), dtype=np.float32)
    padded[np.arange(longest) < lengths[:, None]] = numbers_of(column.join(rows)).reshape(-1, width)
    return torch.from_numpy(padded), torch.from_numpy(lengths)


def pad(column: Ragged, rows: Sequence[int] | Rows, value: int = 0) -> tuple[Tensor, Tensor]:
    """Return the given rows as ids (B, T), padded with `value`, and their lengths (B,); T is the longest length."""
    import torch

    lengths = column.lengths[np.asarray(rows, dtype=np.int64)]
    longest = int(lengths.max(initial=0))
    padded = np.full((len(lengths), longest), value, dtype=np.int64)
    padded[np.arange(longest) < lengths[:, None]] = column.join(rows)
    return torch.from_numpy(padded), torch.from_numpy(lengths)
