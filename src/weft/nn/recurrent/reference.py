"""The plain way to run a cell: its step in a loop. Every faster way must give these numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.nn.recurrent.cell import Cell
from weft.nn.state import State, map_state


def run(cell: Cell, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
    """x (B, T, I), state before the first step -> outputs (B, T, O), state after each row's last real step."""
    outputs = []
    for t, x_t in enumerate(x.unbind(1)):
        output, after = cell(x_t, state)  # called, so that hooks see every step
        if lengths is None:
            state = after
        else:
            alive = t < lengths
            output = _where(alive, output, torch.zeros_like(output))
            state = map_state(lambda new, old, alive=alive: _where(alive, new, old), after, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


def _where(rows: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Choose whole rows (B,) of tensors with any further dimensions."""
    return torch.where(rows.view(-1, *[1] * (new.dim() - 1)), new, old)
