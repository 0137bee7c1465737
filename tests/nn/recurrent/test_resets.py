"""Resets: a row with them is, in everything, the rows that it is cut into."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.errors import DataError
from weft.nn import RNN, CellChoice, State, map_state
from weft.nn.state import leaves_of, select_rows

LENGTHS = torch.tensor([6, 3, 0, 5])
RESETS = torch.tensor(
    [[0, 0, 1, 1, 0, 0], [1, 0, 0, 0, 1, 1], [1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0]], dtype=torch.bool
)
"""In the middle, side by side, at the first and the last step of a row, past an end, and in a row of no steps."""


def build(cell: CellChoice, **settings: object) -> RNN:
    rnn = RNN(cell, 5, 4, layers=2, initial="learned", **settings)
    with torch.no_grad():
        for name, parameter in rnn.named_parameters():
            if ".initial." in name:
                parameter.uniform_(0.1, 0.5)
    return rnn


def given_state(rnn: RNN, batch: int) -> State:
    zeros = rnn.initial_state(batch, torch.empty(0))
    return map_state(lambda part: torch.linspace(0.1, 0.6, part.numel()).view_as(part).requires_grad_(), zeros)


def split(rnn: RNN, x: Tensor, state: State) -> tuple[Tensor, list[Tensor]]:
    """Every piece of every row by itself, with the definition of a reset: forward the first piece begins with the given
    state unless a reset is there, backward the last one does; every other state is the initial one."""
    outputs, finals = [], []
    for row, length in enumerate(LENGTHS.tolist()):
        mine = select_rows(state, torch.tensor([row]))
        cuts = [0, *(t for t in range(1, length) if RESETS[row, t]), length]
        below, ends = x[row : row + 1, :length], []
        for layer, start in zip(rnn.layers, mine, strict=True):
            pieces, states = [], []
            for number, (begin, end) in enumerate(itertools.pairwise(cuts)):
                first = layer.initial_state(1, x)
                fresh = bool(RESETS[row, 0]) and length > 0
                if rnn.bidirectional:
                    ahead = start[0] if number == 0 and not fresh else first[0]
                    first = ahead, start[1] if number == len(cuts) - 2 else first[1]
                elif number == 0 and not fresh:
                    first = start
                output, final = layer(below[:, begin:end], None, first)
                pieces.append(output)
                states.append(final)
            below = torch.cat(pieces, dim=1)
            ends.append((states[-1][0], states[0][1]) if rnn.bidirectional else states[-1])
        outputs.append(torch.nn.functional.pad(below, (0, 0, 0, x.size(1) - length)))
        finals.append(leaves_of(tuple(ends)))
    return torch.cat(outputs), [torch.cat(parts) for parts in zip(*finals, strict=True)]


def gradients(rnn: RNN, output: Tensor, finals: list[Tensor], inputs: list[Tensor]) -> list[Tensor]:
    loss = sum((part * torch.arange(1, part.numel() + 1).view_as(part).sin()).sum() for part in (output, *finals))
    assert isinstance(loss, Tensor)
    return list(torch.autograd.grad(loss, [*inputs, *rnn.parameters()], materialize_grads=True))


@pytest.mark.covers("R14")
@pytest.mark.parametrize("bidirectional", [False, True])
def test_resets_equal_splitting_the_row(cell: CellChoice, bidirectional: bool) -> None:
    rnn = build(cell, bidirectional=bidirectional)
    x, state = torch.randn(4, 6, 5, requires_grad=True), given_state(rnn, 4)
    output, final = rnn(x, LENGTHS, state, resets=RESETS)
    expected, ends = split(rnn, x, state)
    assert_close(output, expected)
    assert_close(leaves_of(final), ends)
    inputs = [x, *leaves_of(state)]
    found = gradients(rnn, output, leaves_of(final), inputs)
    assert_close(found, gradients(rnn, expected, ends, inputs), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["reference", "vendor", "plain"])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_every_backend_resets(backend: str, bidirectional: bool) -> None:
    torch.manual_seed(0)
    rnn = build("lstm" if backend == "vendor" else "gru", bidirectional=bidirectional)
    if backend == "plain":
        rnn.double()
    else:
        for layer in rnn.layers:
            layer.backend = backend
    x = torch.randn(4, 6, 5, requires_grad=True, dtype=next(rnn.parameters()).dtype)
    state = map_state(lambda part: part.to(x.dtype), given_state(rnn, 4))
    output, final = rnn(x, LENGTHS, state, resets=RESETS)
    expected, ends = split(rnn, x, state)
    assert_close(output, expected)
    assert_close(leaves_of(final), ends)
    assert_close(
        gradients(rnn, output, leaves_of(final), [x]), gradients(rnn, expected, ends, [x]), rtol=1e-4, atol=1e-5
    )


def test_gradients_stop_at_a_reset() -> None:
    rnn, x = RNN("gru", 5, 4, bidirectional=True), torch.randn(1, 6, 5, requires_grad=True)
    resets = torch.zeros(1, 6, dtype=torch.bool)
    resets[0, 3] = True
    output, _ = rnn(x, resets=resets)
    (ahead,) = torch.autograd.grad(output[:, 3:].sum(), x, retain_graph=True)
    assert not ahead[:, :3].any()
    assert ahead[:, 3:].all()
    (back,) = torch.autograd.grad(output[:, :3].sum(), x)
    assert not back[:, 3:].any()


def test_a_first_step_that_is_reset_ignores_the_given_state() -> None:
    rnn, x = RNN("lstm", 5, 4), torch.randn(2, 3, 5)
    resets = torch.tensor([[True, False, False], [False, False, False]])
    state = map_state(lambda part: part + 1.0, rnn.initial_state(2, x))
    output, _ = rnn(x, state=state, resets=resets)
    assert_close(output[0], rnn(x)[0][0])
    assert_close(output[1], rnn(x, state=state)[0][1])


def test_a_random_state_is_drawn_anew_at_each_reset() -> None:
    rnn = RNN("elman", 5, 4, initial="random")
    output, _ = rnn(torch.zeros(2, 3, 5), resets=torch.ones(2, 3, dtype=torch.bool))
    assert len(output.flatten(0, 1).unique(dim=0)) == 6


def test_resets_without_steps_or_without_a_true_one_change_nothing() -> None:
    rnn, x = RNN("lstm", 5, 4), torch.randn(2, 3, 5)
    nothing = torch.zeros(2, 3, dtype=torch.bool)
    assert_close(rnn(x, resets=nothing), rnn(x), rtol=0, atol=0)
    for batch, time in ((0, 3), (2, 0)):
        output, _ = rnn(x[:batch, :time], resets=~nothing[:batch, :time])
        assert output.shape == (batch, time, 4)
    with pytest.raises(DataError, match=r"resets: resets are int64 of the shape \(2, 3\)"):
        rnn(x, resets=nothing.long())
    with pytest.raises(DataError, match=r"a bool for each step, \(2, 3\)"):
        rnn(x, resets=nothing[:, :2])


def test_resets_in_a_compiled_model() -> None:
    rnn, x = RNN("gru", 5, 4, bidirectional=True), torch.randn(4, 6, 5)
    compiled = torch.compile(rnn, backend="aot_eager")
    for lengths in (None, LENGTHS):
        output, _ = compiled(x, lengths, resets=RESETS)
        assert_close(output, rnn(x, lengths, resets=RESETS)[0])
        compiled.zero_grad()
        output.sum().backward()
        found = [parameter.grad.clone() for parameter in rnn.parameters()]
        rnn.zero_grad()
        rnn(x, lengths, resets=RESETS)[0].sum().backward()
        assert_close(found, [parameter.grad for parameter in rnn.parameters()])


def test_residual_layers_reset_too() -> None:
    rnn, x = RNN("lstm", 4, 4, layers=2, skip="residual"), torch.randn(2, 6, 4)
    resets = torch.zeros(2, 6, dtype=torch.bool)
    resets[:, 2] = True
    output, _ = rnn(x, resets=resets)
    assert_close(output, torch.cat((rnn(x[:, :2])[0], rnn(x[:, 2:])[0]), dim=1))
