"""Buffers for many numbers, on large pages and reused.

Allocating memory takes longer than using it: a page of 4 KiB costs a microsecond, and large blocks that a process
frees go back to the system at once. Here freed buffers are kept for the next request.
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

PAGE_BYTES: Final = 1 << 21
LARGE_BYTES: Final = 2 * PAGE_BYTES
"""Buffers of this size or more are on large pages."""

MIN_REUSED_BYTES: Final = 1 << 18
"""Buffers of this size or more are reused; for smaller ones nothing is gained."""

SHIFTS_BYTES: Final = tuple(17 * 64 * number for number in range(16))
"""Offsets after the start of a page, used in turn by the buffers: rows at the same offset in several of them would
evict each other from a CPU cache."""

PEAK_REQUESTS: Final = 256
"""Requests over which the peak of memory in use is measured; used and idle buffers together stay within it."""

_ADVICE: Final = getattr(mmap, "MADV_HUGEPAGE", None)
"""None on a system without large pages; there torch allocates the memory."""


def empty(rows: int, width: int, like: Tensor) -> Tensor:
    """An uninitialised tensor (rows, width) with type and device of another one; on a CPU its buffer may be reused."""
    size = rows * width * like.element_size()
    if like.device.type != "cpu" or size < MIN_REUSED_BYTES or _ADVICE is None:
        return like.new_empty(rows, width)
    return POOL.take(size).numbers(rows * width, like.dtype, POOL).view(rows, width)


class _Buffer:
    """Mapped memory."""

    def __init__(self, size: int, shift: int) -> None:
        large = size >= LARGE_BYTES
        # Mapped memory begins anywhere; with one page more, the first page contains a page boundary.
        more = shift + (PAGE_BYTES if large else 0)
        self.mapped = mmap.mmap(-1, size + more, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.size, self.first = size, shift
        if large:
            assert _ADVICE is not None
            self.first += -torch.frombuffer(self.mapped, dtype=torch.uint8).data_ptr() % PAGE_BYTES
            with suppress(OSError):  # a system may define the flag without having large pages
                self.mapped.madvise(_ADVICE)

    def numbers(self, count: int, dtype: torch.dtype, pool: Pool) -> Tensor:
        """A tensor (count,) that keeps the memory mapped; the buffer returns to the pool after its last view."""
        view = memoryview(self.mapped)
        pool.lend(self, view)
        return torch.frombuffer(view, dtype=dtype, count=count, offset=self.first)


class _Loan(ref[memoryview]):
    """A weak reference to the view of a lent buffer; its callback returns the buffer."""

    buffer: _Buffer


class Pool:
    """Buffers that were used and can be reused, limited by the recent peak of memory in use."""

    def __init__(self) -> None:
        self.idle: deque[_Buffer] = deque()
        """In the order of their return, the latest last."""
        self.lent: dict[int, _Loan] = {}
        self._lock, self._shifts = threading.Lock(), cycle(SHIFTS_BYTES)
        self._requests = self._most = self._before = 0

    def take(self, size: int) -> _Buffer:
        """A buffer of at least `size` bytes: the smallest idle one of less than twice the size, or a new one."""
        # Buffers that return meanwhile, in any thread, are appended to `idle`; only this block removes any.
        with self._lock:
            waiting = list(self.idle)[::-1]  # of equal ones the last used: it may still be in a CPU cache
            found = min((buffer for buffer in waiting if size <= buffer.size < 2 * size), key=_size, default=None)
            if found is not None:
                self.idle.remove(found)
            self._drop(size if found is None else found.size)
        return found or _Buffer(size, next(self._shifts))

    def lend(self, buffer: _Buffer, view: memoryview) -> None:
        """`buffer` returns when the last tensor on `view` is gone."""
        loan = _Loan(view, self._give_back)
        loan.buffer = buffer
        self.lent[id(loan)] = loan

    def _give_back(self, loan: ref[memoryview]) -> None:
        # Python may call this anywhere, so it consists of operations that cannot be interrupted.
        self.idle.append(self.lent.pop(id(loan)).buffer)

    def _drop(self, size: int) -> None:
        """Free the buffers that were idle longest while too much memory is idle."""
        used = size + sum(loan.buffer.size for loan in list(self.lent.values()))
        self._requests += 1
        if self._requests % PEAK_REQUESTS == 0:
            self._before, self._most = self._most, 0
        self._most = max(self._most, used)
        waiting = sum(map(_size, list(self.idle)))
        while used + waiting > max(self._most, self._before) and self.idle:
            waiting -= self.idle.popleft().size


def _size(buffer: _Buffer) -> int:
    return buffer.size


POOL: Final = Pool()
