"""Loss scaling for fp16, whose small gradients would otherwise be rounded to zero.

The loss is multiplied by s before the backward pass and its gradients are divided by s after it. Where one of them is
not finite the update is skipped and s is halved; after 2000 good updates in a row it is doubled.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

INTEGERS: Final = ("growth_interval", "_growth_tracker")
"""The entries of the scaler's state that are integers."""


class Scaling:
    """The scale s, adapted during training. All of it is computed on the device, without blocking the host."""

    def __init__(self, device: torch.device, *, initial: float = 2.0**16) -> None:
        self._scaler = torch.amp.GradScaler(device.type, init_scale=initial)

    def scale(self, loss: Tensor) -> Tensor:
        scaled: Tensor = self._scaler.scale(loss)
        return scaled

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients by s, so that they can be clipped."""
        self._scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        """Update the model if all gradients are finite, and s in either case. A loss that is not finite leaves s
        unchanged, since no scale would help."""
        scale, growth = self._scaler._scale, self._scaler._growth_tracker
        assert scale is not None
        assert growth is not None
        before = scale.clone(), growth.clone()
        self._scaler.step(optimizer)
        self._scaler.update()
        good = loss.isfinite()
        for value, earlier in zip((scale, growth), before, strict=True):
            value.copy_(torch.where(good, value, earlier))

    def state(self) -> dict[str, float]:
        """The values for a checkpoint; on CUDA this blocks."""
        return {name: float(value) for name, value in self._scaler.state_dict().items()}

    def restore(self, state: dict[str, float]) -> None:
        self._scaler.load_state_dict({name: int(value) if name in INTEGERS else value for name, value in state.items()})
