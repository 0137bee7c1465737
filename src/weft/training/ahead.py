"""Batches made ready while the step before them still runs."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable
from contextlib import nullcontext
from typing import Generic, TypeVar

import torch

from weft.tasks import Batch

JOIN_SECONDS = 10.0
"""How long to wait, when the loop is left, for the batch that is being made."""


B = TypeVar("B", bound=Batch)


def ahead(batches: Iterable[B], device: torch.device, *, depth: int = 2) -> Generator[B, None, None]:
    """The same batches in the same order, up to `depth` of them made in advance by a thread; for CUDA, pinned.

    The copy to the device is left to the loop: from pinned memory it is queued without waiting, and the few hundred
    kilobytes of a batch of tokens take so little of a step that a second stream would bring more risk than time.
    What makes the batches must not draw from torch's own random numbers, which the model draws from meanwhile.
    """
    worker = _Worker(batches, device, depth)
    worker.start()
    try:
        while (batch := worker.next()) is not None:
            yield batch
    finally:
        worker.stop()


class _Worker(threading.Thread, Generic[B]):
    """Fills a short queue. Both sides wait on one condition, so that leaving is noticed at once."""

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
        """Wait for room; False if nobody wants more."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or len(self._ready) < self._depth)
            if self._over:
                return False
            self._ready.append(batch)
            self._changed.notify_all()
            return True

    def next(self) -> B | None:
        """The next batch, or None after the last; what went wrong in the thread is raised here, after all before it."""
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
