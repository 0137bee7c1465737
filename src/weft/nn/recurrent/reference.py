"""The plain way to run a cell: its step in a loop. Every faster way must give these numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.nn.recurrent.attending import Source
from weft.nn.recurrent.cell import Cell
from weft.nn.state import State, map_state


def run(
    cell: Cell, x: Tensor, state: State, lengths: Tensor | None, source: Source | None = None
) -> tuple[Tensor, State]:
    """x (B, T, I), state before the first step -> outputs (B, T, O), state after each row's last real step. `source` is
    what a cell attends to that does."""
    outputs, attended = [], () if source is None else (source,)
    for t, x_t in enumerate(x.unbind(1)):
        output, after = cell(x_t, state, *attended)  # called, so that hooks see every step
        if lengths is None:
            state = after
        else:
            alive = t < lengths
            output = _where(alive, output, torch.zeros_like(output))
            state = map_state(lambda new, old, alive=alive: _where(alive, new, old), after, state)
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


def history(cell: Cell, x: Tensor, state: State, source: Source | None = None) -> State:
    """x (B, T, I), state before the first step -> the state after every step, with tensors (B, T, n)."""
    states, attended = [], () if source is None else (source,)
    for x_t in x.unbind(1):
        _, state = cell(x_t, state, *attended)
        states.append(state)
    return map_state(lambda *parts: torch.stack(parts, dim=1), *states) if states else _no_steps(state)


def _no_steps(state: State) -> State:
    return map_state(lambda part: part[:, None][:, :0], state)


def _where(rows: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Choose whole rows (B,) of tensors with any further dimensions."""
    return torch.where(rows.view(-1, *[1] * (new.dim() - 1)), new, old)
