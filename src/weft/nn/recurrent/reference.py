"""The plain way to run a cell: its step in a loop. Every faster way must give these numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from weft.nn.recurrent.attending import Source
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.own import check_step
from weft.nn.state import State, leaves_of, map_state


def run(
    cell: Cell, x: Tensor, state: State, lengths: Tensor | None, source: Source | None = None
) -> tuple[Tensor, State]:
    """x (B, T, I), state before the first step -> outputs (B, T, O), state after each row's last real step. `source` is
    what a cell attends to that does."""
    outputs, attended = [], () if source is None else (source,)
    given, changes = _copy(state), False  # a step may change in place what it is given, but not what is the caller's
    for t, x_t in enumerate(x.unbind(1)):
        versions = [] if t else _versions(given)
        found = cell(x_t, given, *attended)  # called, so that hooks see every step
        output, after = found if t else check_step(cell, found, x.size(0))
        changes = changes or (t == 0 and (versions is None or versions != _versions(given)))
        if lengths is None:
            state = after
        else:
            alive = t < lengths
            output = _where(alive, output, torch.zeros_like(output))
            state = map_state(lambda new, old, alive=alive: _where(alive, new, old), after, state)
        given = _copy(state) if changes else state
        outputs.append(output)
    return torch.stack(outputs, dim=1), state


def _copy(state: State) -> State:
    return map_state(torch.clone, state)


def _versions(state: State) -> list[int] | None:
    """How often each tensor was changed in place, where torch counts that."""
    leaves = leaves_of(state)
    if torch.compiler.is_compiling() or any(part.is_inference() for part in leaves):
        return None
    return [part._version for part in leaves]


def history(cell: Cell, x: Tensor, state: State, source: Source | None = None) -> State:
    """x (B, T, I), state before the first step -> the state after every step, with tensors (B, T, n)."""
    states, attended = [], () if source is None else (source,)
    for x_t in x.unbind(1):
        _, state = cell(x_t, _copy(state), *attended)
        states.append(state)
    return map_state(lambda *parts: torch.stack(parts, dim=1), *states) if states else _no_steps(state)


def _no_steps(state: State) -> State:
    return map_state(lambda part: part[:, None][:, :0], state)


def _where(rows: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Choose whole rows (B,) of tensors with any further dimensions."""
    return torch.where(rows.view(-1, *[1] * (new.dim() - 1)), new, old)
