"""Loss and gradient norm of an update, which arrive from a GPU some time after the update was queued."""

from __future__ import annotations

import math

import torch
from torch import Tensor


class Numbers:
    """The mean loss of an update and the norm of its gradient before clipping.

    `arrived` is true when they can be read without blocking. Where several batches make the update, the share of each
    in the loss is kept too.
    """

    def __init__(self, loss: float, gradient: float, *parts: float) -> None:
        self._values, self._parts = (loss, gradient), parts
        self._event: torch.cuda.Event | None = None
        self._host: Tensor | None = None

    @classmethod
    def of(cls, loss: Tensor, gradient: Tensor, *parts: Tensor) -> Numbers:
        """Build from tensors: on a CPU they are read at once, on CUDA a copy to pinned memory is queued."""
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
        """Return loss and gradient norm; blocks until they have arrived."""
        if self._event is not None and self._host is not None:
            self._event.synchronize()
            loss, gradient, *parts = self._host.tolist()
            self._values, self._parts, self._event, self._host = (loss, gradient), tuple(parts), None, None
        return self._values

    @property
    def finite(self) -> bool:
        """Whether loss and gradient norm are finite; blocks until they have arrived."""
        return all(map(math.isfinite, self.read()))

    @property
    def parts(self) -> tuple[float, ...]:
        """The share of each batch in the loss, empty if one batch made the update; blocks until they have arrived."""
        self.read()
        return self._parts
