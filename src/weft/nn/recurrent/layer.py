"""One layer of a recurrent network: a cell, or one cell for each direction, and the way their outputs meet."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from weft.errors import ConfigError
from weft.nn.recurrent import reference, vendor
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.lengths import reverse_rows, zero_past_end
from weft.nn.state import State, map_state

Backend = Literal["auto", "reference", "vendor"]
Merge = Literal["concat", "sum", "mean", "project"]


class Layer(nn.Module):
    """Runs one cell forward or two cells in both directions; the backward one starts at each row's own end."""

    def __init__(self, cells: list[Cell], *, merge: Merge, learned: bool, backend: Backend) -> None:
        super().__init__()
        self.cells = nn.ModuleList(cells)
        self.merge, self.backend = merge, backend
        size = cells[0].output_size
        self.input_size = cells[0].input_size
        self.output_size = 2 * size if len(cells) == 2 and merge == "concat" else size
        self.project = nn.Linear(2 * size, size) if len(cells) == 2 and merge == "project" else None
        self.initial = nn.ModuleList([LearnedState(cell) for cell in cells]) if learned else None
        if backend == "vendor" and (reason := vendor.missing(cells[0])):
            raise ConfigError(f'"vendor" cannot run: {reason}', where="backend", cure='use "auto"')

    def initial_state(self, batch: int, like: Tensor) -> State:
        """The cell's state before the first step; for two directions, a pair of them."""
        states = tuple(cell.zero_state(batch, like) for cell in self._cells())
        if self.initial is not None:
            states = tuple(learned(zeros) for learned, zeros in zip(self.initial, states, strict=True))
        return states if len(states) == 2 else states[0]

    def forward(self, x: Tensor, lengths: Tensor | None, state: State) -> tuple[Tensor, State]:
        """x (B, T, I), zero past each row's end -> outputs (B, T, O), state after each row's last step."""
        if len(self.cells) == 1:
            return self._run(self._cells()[0], x, state, lengths)
        ahead, back = self._cells()
        outputs, last = self._run(ahead, x, state[0], lengths)
        reversed_outputs, first = self._run(back, reverse_rows(x, lengths), state[1], lengths)
        merged = self._merge(outputs, reverse_rows(reversed_outputs, lengths))
        return (zero_past_end(merged, lengths) if self.project else merged), (last, first)

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """x (B, I) -> output (B, O), next state; one direction only."""
        return self._cells()[0].step(x, state)

    def explain(self) -> str:
        """Which backend runs the cells, and why."""
        name = type(self._cells()[0]).__name__
        if self.backend == "reference":
            return f"{name} runs step by step, as asked"
        if reason := vendor.missing(self._cells()[0]):
            return f"{name} runs step by step: {reason}"
        return f"{name} runs on torch's kernel, all steps in one call"

    def _cells(self) -> list[Cell]:
        return [cell for cell in self.cells if isinstance(cell, Cell)]

    def _run(self, cell: Cell, x: Tensor, state: State, lengths: Tensor | None) -> tuple[Tensor, State]:
        if x.size(0) == 0 or x.size(1) == 0:
            return x.new_zeros(x.size(0), x.size(1), cell.output_size), state
        if self.backend == "reference" or vendor.missing(cell):
            return reference.run(cell, x, state, lengths)
        return vendor.run(cell, x, state, lengths)

    def _merge(self, ahead: Tensor, back: Tensor) -> Tensor:
        """Two of (B, T, H) -> (B, T, 2H) by concatenation, else (B, T, H)."""
        if self.merge == "sum":
            return ahead + back
        if self.merge == "mean":
            return (ahead + back) / 2
        both = torch.cat((ahead, back), dim=-1)
        return both if self.project is None else self.project(both)


class LearnedState(nn.Module):
    """A start for every tensor of a cell's state, learned, the same for each row; zero before training."""

    def __init__(self, cell: Cell) -> None:
        super().__init__()
        self.parts = nn.ParameterList()
        like = next(cell.parameters(), torch.empty(0))
        map_state(self._add, cell.zero_state(1, like))

    def forward(self, zeros: State) -> State:
        """A zero state of any batch size -> the learned one in its place."""
        parts = iter(self.parts)
        return map_state(lambda zero: zero + next(parts), zeros)

    def _add(self, zero: Tensor) -> Tensor:
        self.parts.append(nn.Parameter(zero[0].clone()))
        return zero
