"""Our cells with torch's weights carried over give torch's numbers."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from torch.testing import assert_close

from weft.nn import RNN
from weft.nn.recurrent import Elman, GRUResetAfter

LENGTHS = torch.tensor([7, 3, 5])


@torch.no_grad()
def carry_over(theirs: nn.RNNBase, ours: RNN) -> None:
    """torch has two biases for a gate, ours is their sum; its update gate keeps the old state, ours takes the new."""
    for number, layer in enumerate(ours.layers):
        for cell, suffix in zip(layer.cells, ("", "_reverse"), strict=False):
            parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            w, u, b, d = (getattr(theirs, f"{part}_l{number}{suffix}").clone() for part in parts)
            if isinstance(cell, GRUResetAfter):
                hidden = cell.hidden_size
                for part in (w, u, b, d):
                    part[hidden : 2 * hidden] *= -1
                cell.gates_from_state.weight.copy_(u[: 2 * hidden])
                cell.candidate_from_state.weight.copy_(u[2 * hidden :])
                cell.candidate_from_state.bias.copy_(d[2 * hidden :])
                b[: 2 * hidden] += d[: 2 * hidden]
            else:
                cell.from_state.weight.copy_(u)
                b += d
            cell.from_input.weight.copy_(w)
            cell.from_input.bias.copy_(b)


def relu(input_size: int, hidden_size: int) -> Elman:
    return Elman(input_size, hidden_size, activation="relu")


PAIRS = {
    "lstm": (nn.LSTM, "lstm", {}),
    "gru": (nn.GRU, "gru_reset_after", {}),
    "tanh": (nn.RNN, "elman", {}),
    "relu": (nn.RNN, relu, {"nonlinearity": "relu"}),
}


@pytest.mark.parametrize("backend", ["reference", "vendor"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("pair", PAIRS)
def test_parity_with_torch(pair: str, bidirectional: bool, backend: str) -> None:
    torch.manual_seed(1)
    module, cell, options = PAIRS[pair]
    theirs = module(4, 6, num_layers=2, bidirectional=bidirectional, batch_first=True, **options)
    ours = RNN(cell, 4, 6, layers=2, bidirectional=bidirectional, backend=backend)
    carry_over(theirs, ours)
    x = torch.randn(3, 7, 4)
    for_theirs, for_ours = x.clone().requires_grad_(), x.clone().requires_grad_()
    packed, their_state = theirs(pack_padded_sequence(for_theirs, LENGTHS, batch_first=True, enforce_sorted=False))
    their_output, _ = pad_packed_sequence(packed, batch_first=True)
    our_output, our_state = ours(for_ours, LENGTHS)
    tolerance = {"rtol": 1e-5, "atol": 1e-5}
    assert_close(our_output, their_output, **tolerance)
    for mine, its in zip(stack(our_state, bidirectional), as_tuple(their_state), strict=True):
        assert_close(mine, its, **tolerance)
    their_output.square().sum().backward()
    our_output.square().sum().backward()
    assert_close(for_ours.grad, for_theirs.grad, **tolerance)


def as_tuple(state: Any) -> tuple[Tensor, ...]:
    return state if isinstance(state, tuple) else (state,)


def stack(state: Any, bidirectional: bool) -> tuple[Tensor, ...]:
    """Our nested state as torch's: (layers · directions, B, H) for each of h and c."""
    flat = [cell for layer in state for cell in layer] if bidirectional else state
    return tuple(torch.stack(parts) for parts in zip(*(as_tuple(cell) for cell in flat), strict=True))
