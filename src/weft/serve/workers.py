"""Computations of requests: in threads, few at a time, one at a time for each key, and with a time limit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from weft.serve.errors import HTTPError

T = TypeVar("T")

_END: Final = object()


class Workers:
    """Runs functions in threads. Those with the same key, such as a run, never overlap.

    A thread cannot be ended from outside: a computation that is over its time is answered by an error, and counts as
    running until it ends.
    """

    def __init__(self, *, running: int = 2, waiting: int = 16, seconds: float = 120.0) -> None:
        self.running, self.waiting, self.seconds = running, waiting, seconds
        self.entered = 0
        self._slots: asyncio.Semaphore | None = None
        self._keys: dict[str, tuple[asyncio.Lock, int]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    async def run(self, key: str, function: Callable[[], T]) -> T:
        """Return the result of the function; raise 503 where too many wait, 504 where it takes too long."""
        result: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._compute(key, function, result))
        _TASKS.add(task)
        task.add_done_callback(_TASKS.discard)
        try:
            return await asyncio.wait_for(asyncio.shield(result), self.seconds)
        except TimeoutError:
            if result.done():
                raise
            raise HTTPError(504, f"took more than {self.seconds:g} s", cure="use a shorter input") from None

    async def _compute(self, key: str, function: Callable[[], T], result: asyncio.Future[T]) -> None:
        try:
            async with self._place(key):
                found = await asyncio.to_thread(function)
            if not result.done():
                result.set_result(found)
        except Exception as error:
            if not result.done():
                result.set_exception(error)
                result.exception()  # its client may have gone

    async def iterate(self, key: str, make: Callable[[], Iterator[T]]) -> AsyncIterator[T]:
        """Yield what an iterator yields, each item computed in a thread; it is closed when the reader leaves."""
        async with self._place(key), asyncio.timeout(self.seconds):
            items = await asyncio.to_thread(make)
            try:
                while (item := await asyncio.shield(asyncio.to_thread(next, items, _END))) is not _END:
                    yield item  # type: ignore[misc]
            finally:
                close = getattr(items, "close", None)
                if close is not None:
                    await asyncio.to_thread(_close, close)

    @asynccontextmanager
    async def _place(self, key: str) -> AsyncIterator[None]:
        """Hold a slot and the key; raise where too many wait already."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # each loop has locks of its own; a service has one loop
            self._loop, self._slots, self._keys, self.entered = loop, asyncio.Semaphore(self.running), {}, 0
        if self.entered >= self.running + self.waiting:
            raise HTTPError(503, "too many computations wait", cure="try again in a moment")
        assert self._slots is not None
        self.entered += 1
        lock, users = self._keys.get(key, (asyncio.Lock(), 0))
        self._keys[key] = (lock, users + 1)
        try:
            async with lock, self._slots:
                yield
        finally:
            self.entered -= 1
            lock, users = self._keys[key]
            if users > 1:
                self._keys[key] = (lock, users - 1)
            else:
                del self._keys[key]


_TASKS: set[asyncio.Task[None]] = set()
"""Tasks that run; the loop itself holds only weak references."""


def _close(close: Callable[[], object]) -> None:
    """Close a generator; one that still computes its next item raises a ValueError and ends with it."""
    try:
        close()
    except ValueError:
        return
