"""A state or an input that does not fit is refused before any kernel reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.errors import ConfigError, DataError
from weft.nn import RNN, CellChoice
from weft.nn.recurrent import LSTMState
from weft.nn.recurrent.layer import Backend

ones = torch.ones

WRONG: dict[str, tuple[str, dict[str, Any], Any]] = {
    "a tensor": ("gru", {}, ones(2, 4)),
    "a tensor with rows like layers": ("gru", {"layers": 2}, ones(2, 2, 4)),
    "a list": ("gru", {}, [ones(2, 4)]),
    "the cell's state alone": ("lstm", {}, LSTMState(ones(2, 4), ones(2, 4))),
    "a plain tuple alone": ("peephole_lstm", {}, (ones(2, 4), ones(2, 4))),
    "another cell's state": ("min_gru", {}, (LSTMState(ones(2, 4), ones(2, 4)),)),
    "one direction": ("gru", {"bidirectional": True}, (ones(2, 4),)),
    "a flat pair": ("gru", {"bidirectional": True}, (ones(2, 4), ones(2, 4))),
    "flat pairs": ("gru", {"bidirectional": True, "layers": 2}, tuple(ones(2, 4) for _ in range(4))),
    "a pair for two layers": ("gru", {"layers": 2}, ((ones(2, 4), ones(2, 4)),)),
    "too few layers": ("gru", {"layers": 2}, (ones(2, 4),)),
    "too many rows": ("gru", {}, (ones(3, 4),)),
    "too wide": ("gru", {}, (ones(2, 5),)),
    "whole numbers": ("gru", {}, (ones(2, 4, dtype=torch.int64),)),
    "another device": ("gru", {}, (ones(2, 4, device="meta"),)),
}

CALLS: dict[str, Callable[[RNN, Tensor, Any], Any]] = {
    "forward": lambda rnn, x, state: rnn(x, state=state),
    "last": lambda rnn, x, state: rnn.last(x, state=state),
    "resets": lambda rnn, x, state: rnn(x, state=state, resets=torch.tensor([[False, True, False]] * 2)),
    "lengths": lambda rnn, x, state: rnn(x, torch.tensor([3, 1]), state),
    "step": lambda rnn, x, state: rnn.step(x[:, 0], state),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_state_of_another_form_is_refused(wrong: str, call: str, backend: Backend) -> None:
    kind, options, state = WRONG[wrong]
    if call == "step" and "bidirectional" in options:
        return
    rnn = RNN(kind, 3, 4, backend=backend, **options)
    with pytest.raises(DataError, match=r"^state: "):
        CALLS[call](rnn, torch.randn(2, 3, 3), state)


def test_the_error_shows_both_forms_and_the_cure() -> None:
    with pytest.raises(DataError) as error:
        RNN("lstm", 3, 4)(torch.randn(2, 3, 3), state=LSTMState(ones(2, 4), ones(2, 4)))
    assert str(error.value) == (
        "state: the state is LSTMState(h [2, 4], c [2, 4]), where the network has (LSTMState(h [2, 4], c [2, 4]),) "
        "(a tuple with an entry for each layer, as the network returns it)"
    )


def test_a_plain_tuple_may_stand_for_a_named_one() -> None:
    rnn, x = RNN("peephole_lstm", 3, 4, layers=2), torch.randn(2, 3, 3)
    _, state = rnn(x)
    output, after = rnn(x, state=tuple((h, c) for h, c in state))
    assert_close(output, rnn(x, state=state)[0])
    assert all(isinstance(part, LSTMState) for part in after)


@pytest.mark.parametrize("cell", ["lstm", "peephole_lstm", "min_gru"])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_a_state_of_another_precision_is_converted(cell: CellChoice, backend: Backend) -> None:
    rnn, x = RNN(cell, 3, 4, backend=backend), torch.randn(2, 3, 3)
    _, state = rnn(x)
    double = RNN(cell, 3, 4).double()(x.double())[1]
    output, after = rnn(x, state=double)
    assert output.dtype == torch.float32
    assert_close(rnn.step(x[:, 0], double)[0], output[:, 0])
    assert_close(rnn(x, state=after)[0].shape, rnn(x, state=state)[0].shape)


@pytest.mark.parametrize("x", [torch.randn(2, 3, 2), torch.randn(3, 3), torch.randn(2, 3, 3, 3), [[[1.0] * 3]]])
def test_an_input_of_another_shape_is_refused(x: Any) -> None:
    rnn = RNN("gru", 3, 4)
    for run in (rnn, rnn.last):
        with pytest.raises(DataError, match=r"\(B, T, I\) with I = 3"):
            run(x)
    with pytest.raises(DataError, match=r"\(B, I\) with I = 3"):
        rnn.step(torch.randn(2, 3, 3), rnn.initial_state(2, torch.empty(0)))


def test_lengths_are_a_tensor_and_sizes_are_positive() -> None:
    with pytest.raises(DataError, match=r"lengths are a list \(.*torch.tensor\(lengths\)"):
        RNN("gru", 3, 4)(torch.randn(2, 3, 3), [1, 2])  # type: ignore[arg-type]
    for sizes in (0, [4, 0]):
        with pytest.raises(ConfigError, match="a layer has 0 units"):
            RNN("gru", 3, sizes)
