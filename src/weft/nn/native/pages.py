"""A pool of memory for large tensors, on large pages.

To get memory from the system takes longer than to use it: a page of 4 KiB costs a microsecond, and large blocks that a
process frees go back to the system at once. Here freed blocks are kept for the next request.
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
MIN_LARGE_BYTES: Final = 2 * PAGE_BYTES
"""Bytes from which on a block is on large pages."""

MIN_POOLED_BYTES: Final = 1 << 18
"""Bytes from which on the pool is used; for less, nothing is gained."""

SHIFTS_IN_BYTES: Final = tuple(17 * 64 * number for number in range(16))
"""Blocks begin one of these numbers of bytes after a page, by turns: rows of several blocks that begin alike would
evict each other from a cache."""

WINDOW_REQUESTS: Final = 256
"""Requests over which the largest number of bytes in use at once is recorded; as many bytes may be kept."""

_ADVICE: Final = getattr(mmap, "MADV_HUGEPAGE", None)
"""None on a system without large pages; there torch's own memory is taken."""


def empty(rows: int, width: int, like: Tensor) -> Tensor:
    """An uninitialised tensor (rows, width) with the type and device of `like`; on a CPU from the pool."""
    size = rows * width * like.element_size()
    if like.device.type != "cpu" or size < MIN_POOLED_BYTES or _ADVICE is None:
        return like.new_empty(rows, width)
    return POOL.take(size).numbers(rows * width, like.dtype, POOL).view(rows, width)


class _Block:
    """Mapped memory."""

    def __init__(self, size: int, shift: int) -> None:
        large = size >= MIN_LARGE_BYTES
        # Mapped memory begins anywhere; one page more contains a page boundary.
        more = shift + (PAGE_BYTES if large else 0)
        self.mapped = mmap.mmap(-1, size + more, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.size, self.first = size, shift
        if large:
            assert _ADVICE is not None
            self.first += -torch.frombuffer(self.mapped, dtype=torch.uint8).data_ptr() % PAGE_BYTES
            with suppress(OSError):  # a system may have the name and not the pages
                self.mapped.madvise(_ADVICE)

    def numbers(self, count: int, dtype: torch.dtype, pool: Pool) -> Tensor:
        """A tensor (count,) that keeps the memory mapped; the pool gets it back when its last view is gone."""
        view = memoryview(self.mapped)
        pool.lend(self, view)
        return torch.frombuffer(view, dtype=dtype, count=count, offset=self.first)


class _Loan(ref[memoryview]):
    """A weak reference whose callback returns a block to the pool."""

    block: _Block


class Pool:
    """Blocks that were used and are kept for reuse: at most as many bytes as were in use at once recently."""

    def __init__(self) -> None:
        self.idle: deque[_Block] = deque()
        """In the order in which they came back."""
        self.lent: dict[int, _Loan] = {}
        self._lock, self._shifts = threading.Lock(), cycle(SHIFTS_IN_BYTES)
        self._requests = self._most = self._before = 0

    def take(self, size: int) -> _Block:
        """A block of at least `size` bytes: the smallest idle one, unless it is twice as large, or a new one."""
        # Blocks may come back to `idle` at any time, in any thread; only this method takes them.
        with self._lock:
            waiting = list(self.idle)[::-1]  # of equal ones the last that was used: it may still be in a cache
            found = min((block for block in waiting if size <= block.size < 2 * size), key=_size, default=None)
            if found is not None:
                self.idle.remove(found)
            self._drop(size if found is None else found.size)
        return found or _Block(size, next(self._shifts))

    def lend(self, block: _Block, view: memoryview) -> None:
        """The block comes back when the last tensor on `view` is gone."""
        loan = _Loan(view, self._give_back)
        loan.block = block
        self.lent[id(loan)] = loan

    def _give_back(self, loan: ref[memoryview]) -> None:
        # Python may call this anywhere, so it only does what cannot be interrupted.
        self.idle.append(self.lent.pop(id(loan)).block)

    def _drop(self, size: int) -> None:
        """Return the blocks that were idle longest to the system, if too much is idle."""
        used = size + sum(loan.block.size for loan in list(self.lent.values()))
        self._requests += 1
        if self._requests % WINDOW_REQUESTS == 0:
            self._before, self._most = self._most, 0
        self._most = max(self._most, used)
        waiting = sum(map(_size, list(self.idle)))
        while used + waiting > max(self._most, self._before) and self.idle:
            waiting -= self.idle.popleft().size


def _size(block: _Block) -> int:
    return block.size


POOL: Final = Pool()
