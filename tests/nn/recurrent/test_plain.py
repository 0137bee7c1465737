"""The plan in plain torch, for steps that no kernel runs."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.nn import RNN, Cell


class Outer(Cell):
    """h' = tanh(W x ⊙ h + 1), by tensors with a further dimension, of which that of the input leaves the loop."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh((self.from_input(x).unsqueeze(1) * h.unsqueeze(1)).sum(1) + 1)
        return h, h


def test_values_of_three_dimensions_are_read_from_both_ends() -> None:
    rnn = RNN(Outer, 3, 4, bidirectional=True)
    reference = RNN(Outer, 3, 4, bidirectional=True, backend="reference")
    reference.load_state_dict(rnn.state_dict())
    assert "plain torch" in rnn.explain()
    x, lengths = torch.randn(3, 5, 3), torch.tensor([5, 2, 0])
    assert_close(rnn(x, lengths)[0], reference(x, lengths)[0])
