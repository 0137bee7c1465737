"""How many numbers a cell has, where they start, and the state before the first step."""

from __future__ import annotations

import math

import pytest
import torch
from torch.testing import assert_close

from weft.nn import Cell
from weft.nn.recurrent import (
    GRU,
    LSTM,
    MUT1,
    MUT2,
    MUT3,
    CoupledLSTM,
    Elman,
    GRUResetAfter,
    LSTMState,
    PeepholeLSTM,
    ProjectedLSTM,
)


@pytest.mark.covers("R4")
def test_parameter_counts() -> None:
    """I = 7, H = 5: a gate has W, U and b."""
    one = 5 * 7 + 5 * 5 + 5
    expected = {
        Elman: one,
        LSTM: 4 * one,
        PeepholeLSTM: 4 * one + 3 * 5,
        CoupledLSTM: 3 * one,
        ProjectedLSTM: 4 * (5 * 7 + 5 * 2 + 5) + 5 * 2,
        GRU: 3 * one,
        GRUResetAfter: 3 * one + 5,
        MUT1: 3 * one - 5 * 5,
        MUT2: 3 * one,
        MUT3: 3 * one,
    }
    assert {cell: count(cell(7, 5)) for cell in expected} == expected
    assert count(CoupledLSTM(7, 5)) * 4 == count(LSTM(7, 5)) * 3
    assert count(PeepholeLSTM(7, 5, peepholes="full")) == 4 * one + 3 * 5 * 5
    assert count(Elman(7, 5, feedback=True)) == one + 7 * 5 + 5 * 5 + 5
    assert count(MUT1(5, 5)) == 3 * (5 * 5 + 5 * 5 + 5) - 2 * 5 * 5


def count(cell: Cell) -> int:
    return sum(parameter.numel() for parameter in cell.parameters())


@pytest.mark.covers("R2", "R11")
@pytest.mark.parametrize("kind", [LSTM, PeepholeLSTM, CoupledLSTM, ProjectedLSTM])
def test_matrices_start_by_gate_and_the_forget_bias_where_it_is_set(kind: type[LSTM]) -> None:
    cell = kind(50, 20, forget_bias=2.0)
    gates = cell.from_input.out_features // 20
    for block in cell.from_state.weight.chunk(gates):
        assert_close(block.T @ block, torch.eye(block.size(1)), atol=1e-5, rtol=0)
    bound = math.sqrt(6 / (50 + 20))
    for block in cell.from_input.weight.chunk(gates):
        assert 0.95 * bound < block.abs().max() <= bound
    forget = 0 if kind is CoupledLSTM else 1
    biases = [2.0 if gate == forget else 0.0 for gate in range(gates)]
    assert_close(cell.from_input.bias, torch.tensor(biases).repeat_interleave(20))


def test_zero_state_has_the_named_fields() -> None:
    like = torch.empty(0, dtype=torch.float64)
    state = LSTM(2, 3).zero_state(4, like)
    assert isinstance(state, LSTMState)
    assert state.c.shape == (4, 3)
    assert state.h.dtype == torch.float64
    assert GRU(2, 3).zero_state(4, like).shape == (4, 3)
    narrow = ProjectedLSTM(2, 7).zero_state(4, like)
    assert (narrow.h.shape, narrow.c.shape) == ((4, 3), (4, 7))
