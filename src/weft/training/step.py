"""What one update gives. On CUDA its numbers are still on their way when the update is yielded, and nobody waits."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.tasks.task import Origin


class Numbers:
    """The mean loss of an update and the norm of its gradient before clipping.

    `arrived` says whether they can be read without waiting for the device. Where several batches make the update, each
    one's share of the loss is there too.
    """

    def __init__(self, loss: float, gradient: float, *parts: float) -> None:
        self._values, self._parts = (loss, gradient), parts
        self._event: torch.cuda.Event | None = None
        self._host: Tensor | None = None

    @classmethod
    def of(cls, loss: Tensor, gradient: Tensor, *parts: Tensor) -> Numbers:
        """From numbers on a device: read at once, on CUDA sent to pinned memory and read when asked for."""
        values = torch.stack([number.detach().float() for number in (loss, gradient, *parts)])
        if not values.is_cuda:
            return cls(*values.tolist())
        numbers = cls(0.0, 0.0)
        numbers._host = torch.empty(len(values), pin_memory=True)
        numbers._host.copy_(values, non_blocking=True)
        numbers._event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        numbers._event.record(torch.cuda.current_stream(values.device))
        return numbers

    @property
    def arrived(self) -> bool:
        return self._event is None or bool(self._event.query())  # type: ignore[no-untyped-call]

    def read(self) -> tuple[float, float]:
        """Loss and gradient; waits for them if need be."""
        if self._event is not None and self._host is not None:
            self._event.synchronize()
            loss, gradient, *parts = self._host.tolist()
            self._values, self._parts, self._event, self._host = (loss, gradient), tuple(parts), None, None
        return self._values

    @property
    def finite(self) -> bool:
        """Whether both are; waits for them if need be."""
        return all(map(math.isfinite, self.read()))

    @property
    def parts(self) -> tuple[float, ...]:
        """The shares of the loss, batch by batch; waits for them if need be. None where one batch made the update."""
        self.read()
        return self._parts


@dataclass(frozen=True)
class Step:
    """One update: how many tokens it took, its learning rate, the time it took with its batch, and its numbers."""

    number: int
    tokens: int
    rate: float
    seconds: float
    numbers: Numbers
    origins: tuple[Origin, ...] = ()
    """What the batches that this process computed were made of, where that is known."""
    notes: tuple[str, ...] = ()
    """What a person should know by now, of this update or of one before it."""

    @property
    def loss(self) -> float:
        """Mean loss per predicted token; waits for it on CUDA."""
        return self.numbers.read()[0]

    @property
    def gradient(self) -> float:
        """Norm of the gradient before clipping; waits for it on CUDA."""
        return self.numbers.read()[1]


class Awaited:
    """Steps in their order, each given out once its numbers have arrived."""

    def __init__(self) -> None:
        self._steps: deque[Step] = deque()

    def add(self, step: Step) -> None:
        self._steps.append(step)

    def arrived(self) -> Iterator[Step]:
        """Those that can be read without waiting."""
        while self._steps and self._steps[0].numbers.arrived:
            yield self._steps.popleft()

    def all(self) -> Iterator[Step]:
        """Those that are left; reading them may wait."""
        while self._steps:
            yield self._steps.popleft()
