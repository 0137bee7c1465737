"""Prepares batches in a thread while the update before them still runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import nullcontext
from typing import Generic, TypeVar

import torch

from weft.tasks import Batch

JOIN_SECONDS = 10.0
"""The longest wait for the batch in progress when the loop ends early."""


B = TypeVar("B", bound=Batch)


def ahead(batches: Iterable[B], device: torch.device, *, depth: int = 2) -> Generator[B, None, None]:
    """Yield the batches in their order, up to `depth` of them prepared in advance by a thread; for CUDA, pinned.

    The loop itself copies them to the device: from pinned memory that does not block, and the few hundred kilobytes of
    a batch of tokens take so little time that a second stream would bring more risk than speed.
    `batches` must not use torch's global random numbers, because the model uses them at the same time.
    """
    worker = _Worker(batches, device, depth)
    worker.start()
    try:
        while (batch := worker.next()) is not None:
            yield batch
    finally:
        worker.stop()


class _Worker(threading.Thread, Generic[B]):
    """Fills a short queue. Both sides block on one condition, so that an early end is noticed at once."""

    def __init__(self, batches: Iterable[B], device: torch.device, depth: int) -> None:
        super().__init__(name="batches", daemon=True)
        self._batches, self._device, self._depth = batches, device, depth
        self._ready: deque[B] = deque()
        self._error: BaseException | None = None
        self._over = False
        self._changed = threading.Condition()

    def run(self) -> None:
        pins = self._device.type == "cuda"
        try:
            with torch.cuda.device(self._device) if pins else nullcontext():
                for batch in self._batches:
                    if not self._put(batch.pin() if pins else batch):
                        return
        except BaseException as error:
            self._error = error
        finally:
            with self._changed:
                self._over = True
                self._changed.notify_all()

    def _put(self, batch: B) -> bool:
        """Add a batch when the queue has a free place; returns False if the loop has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or len(self._ready) < self._depth)
            if self._over:
                return False
            self._ready.append(batch)
            self._changed.notify_all()
            return True

    def next(self) -> B | None:
        """Return the next batch, or None after the last; an error of the thread is raised here."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._ready)
            if self._ready:
                batch = self._ready.popleft()
                self._changed.notify_all()
                return batch
        if self._error is not None:
            raise self._error
        return None

    def stop(self) -> None:
        with self._changed:
            self._over = True
            self._ready.clear()
            self._changed.notify_all()
        self.join(JOIN_SECONDS)
