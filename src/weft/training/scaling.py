"""Loss scaling for fp16, whose small gradients would otherwise be rounded to zero.

The loss is multiplied by s before the backward pass and its gradients are divided by s after it. Where one of them is
not finite the update is left out and s is halved; after 2000 good updates in a row it is doubled.
"""

from __future__ import annotations

from typing import Final

import torch
from torch import Tensor

WHOLE: Final = ("growth_interval", "_growth_tracker")
"""What counts updates and is therefore no fraction."""


class Scaling:
    """The scale s, found while training goes on. All of it happens on the device, and nobody waits for it."""

    def __init__(self, device: torch.device, *, initial: float = 2.0**16) -> None:
        self._scaler = torch.amp.GradScaler(device.type, init_scale=initial)

    def scale(self, loss: Tensor) -> Tensor:
        scaled: Tensor = self._scaler.scale(loss)
        return scaled

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """The gradients as they are without s, so that they can be clipped."""
        self._scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
        """Update the model unless a gradient is not finite, and s in either case; not by a loss that is not finite
        itself, for no scale would mend it."""
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
        """What a checkpoint keeps; on CUDA it waits for the device."""
        return {name: float(value) for name, value in self._scaler.state_dict().items()}

    def restore(self, state: dict[str, float]) -> None:
        self._scaler.load_state_dict({name: int(value) if name in WHOLE else value for name, value in state.items()})
