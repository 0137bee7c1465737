"""Room for many numbers: on large pages, and used again.

To be given memory by the system takes longer than to use it: a page of 4 KiB costs a microsecond, and what a process
frees goes back to the system as soon as it is much. Here freed room waits for the next one who asks.
"""

from __future__ import annotations

import mmap
import threading
from collections import deque
from contextlib import suppress
from itertools import cycle
from typing import Final
from weakref import ref

import torch
from torch import Tensor

PAGE: Final = 1 << 21
LARGE: Final = 2 * PAGE
"""Bytes from which on pages are large."""

LEAST: Final = 1 << 18
"""Bytes from which on room is used again; for less, nothing is gained."""

SHIFTS: Final = tuple(17 * 64 * number for number in range(16))
"""Rooms to be used again begin so many bytes after a page, by turns: rows that begin alike in several of them would
take each other's place in a cache."""

REQUESTS: Final = 256
"""Over so many the most that was in use at once is known: as much may wait."""

_ADVICE: Final = getattr(mmap, "MADV_HUGEPAGE", None)
"""None on a system without large pages; there torch's own memory is taken."""


def empty(rows: int, width: int, like: Tensor) -> Tensor:
    """(rows, width) numbers in the type of another tensor and beside it; on a CPU in room that may be used again."""
    size = rows * width * like.element_size()
    if like.device.type != "cpu" or size < LEAST or _ADVICE is None:
        return like.new_empty(rows, width)
    return POOL.take(size).numbers(rows * width, like.dtype, POOL).view(rows, width)


class _Room:
    """Mapped memory."""

    def __init__(self, size: int, shift: int) -> None:
        large = size >= LARGE
        # Mapped memory begins anywhere: with a page more there is one boundary within the first.
        more = shift + (PAGE if large else 0)
        self.mapped = mmap.mmap(-1, size + more, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.size, self.first = size, shift
        if large:
            assert _ADVICE is not None
            self.first += -torch.frombuffer(self.mapped, dtype=torch.uint8).data_ptr() % PAGE
            with suppress(OSError):  # a system may have the name and not the pages
                self.mapped.madvise(_ADVICE)

    def numbers(self, count: int, dtype: torch.dtype, pool: Pool) -> Tensor:
        """(count,), which keep it mapped, and tell the pool when nobody has them any more."""
        view = memoryview(self.mapped)
        pool.lend(self, view)
        return torch.frombuffer(view, dtype=dtype, count=count, offset=self.first)


class _Loan(ref[memoryview]):
    """What tells when nobody has a view of some room any more."""

    room: _Room


class Pool:
    """Room that was used and may be used again: at most as much as was in use at once not long ago."""

    def __init__(self) -> None:
        self.idle: deque[_Room] = deque()
        """The one that came back last is the last."""
        self.lent: dict[int, _Loan] = {}
        self._lock, self._shifts = threading.Lock(), cycle(SHIFTS)
        self._requests = self._most = self._before = 0

    def take(self, size: int) -> _Room:
        """Room for at least so many bytes: the smallest that waits, if it is not twice as large, or fresh."""
        # What comes back meanwhile, in this thread or another, is added to `idle`; taken from it is only here.
        with self._lock:
            waiting = list(self.idle)[::-1]  # of equal ones that which was used last: a cache may still have it
            found = min((room for room in waiting if size <= room.size < 2 * size), key=_size, default=None)
            if found is not None:
                self.idle.remove(found)
            self._drop(size if found is None else found.size)
        return found or _Room(size, next(self._shifts))

    def lend(self, room: _Room, view: memoryview) -> None:
        """`room` comes back when the last tensor that stands on `view` is gone."""
        loan = _Loan(view, self._give_back)
        loan.room = room
        self.lent[id(loan)] = loan

    def _give_back(self, loan: ref[memoryview]) -> None:
        # Python may call this anywhere, so it does no more than what cannot be interrupted.
        self.idle.append(self.lent.pop(id(loan)).room)

    def _drop(self, size: int) -> None:
        """Give the system what has waited longest, if too much waits."""
        used = size + sum(loan.room.size for loan in list(self.lent.values()))
        self._requests += 1
        if self._requests % REQUESTS == 0:
            self._before, self._most = self._most, 0
        self._most = max(self._most, used)
        waiting = sum(map(_size, list(self.idle)))
        while used + waiting > max(self._most, self._before) and self.idle:
            waiting -= self.idle.popleft().size


def _size(room: _Room) -> int:
    return room.size


POOL: Final = Pool()
