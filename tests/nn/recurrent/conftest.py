"""Cells for the batteries: every name of the catalog, its variants, and one written as a person would write theirs."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn

from weft.nn import CELLS, Cell, CellChoice


class TracesState(NamedTuple):
    fast: Tensor
    slow: Tensor


class Traces(Cell):
    """Two leaky memories of the input; the output sees both."""

    state_type = TracesState

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)
        self.from_state = nn.Linear(hidden_size, hidden_size)

    def step(self, x: Tensor, state: TracesState) -> tuple[Tensor, TracesState]:
        fast = 0.5 * state.fast + torch.tanh(self.from_input(x) + self.from_state(state.slow))
        slow = 0.9 * state.slow + 0.1 * fast
        return fast - slow, TracesState(fast, slow)


VARIANTS: list[dict[str, Any]] = [
    {"kind": "elman", "feedback": True},
    {"kind": "elman", "activation": "sigmoid"},
    {"kind": "lstm", "candidate": "sigmoid"},
    {"kind": "peephole_lstm", "peepholes": "full"},
    {"kind": "projected_lstm", "projection": 2},
    {"kind": "gru", "update": "state"},
    {"kind": "gru_reset_after", "update": "state"},
    {"kind": "gru", "candidate": "sigmoid", "bias": False},
    {"kind": "gru_reset_after", "candidate": "sigmoid"},
    {"kind": "gru_reset_after", "bias": False},
    {"kind": "lstm", "bias": False},
    {"kind": "mut2", "bias": False},
]


@pytest.fixture(
    params=[*CELLS, *VARIANTS, Traces], ids=[*CELLS, *("-".join(map(str, v.values())) for v in VARIANTS), "own"]
)
def cell(request: pytest.FixtureRequest) -> CellChoice:
    torch.manual_seed(3)
    return request.param


@pytest.fixture(params=CELLS)
def name(request: pytest.FixtureRequest) -> str:
    torch.manual_seed(4)
    return request.param
