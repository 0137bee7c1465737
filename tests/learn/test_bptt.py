"""Backpropagation through time: a linear network's gradients by its equations, and what a carried state is worth."""

from __future__ import annotations

import math
import random

import pytest
import torch
from torch import Tensor, nn

from weft.data import Examples, Ragged
from weft.models import RecurrentLanguageConfig, build_language_model
from weft.nn import RNN, Cell, detach
from weft.tasks import TASKS, Codec
from weft.text import TextConfig, Tokenizer
from weft.training import SCHEDULES, Carry, Streams, build_optimizer, steps

STEPS, INPUT, HIDDEN, OUTPUT = 7, 3, 4, 2


class LinearCell(Cell):
    """h' = W_hx x + W_hh h."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size, bias=False)
        self.from_state = nn.Linear(hidden_size, hidden_size, bias=False)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.from_input(x) + self.from_state(h)
        return h, h


@pytest.mark.covers("R12")
@pytest.mark.parametrize("truncate", [STEPS, 3, 1], ids=["full", "truncated", "one step"])
def test_the_gradients_of_a_linear_network_are_those_of_its_equations(truncate):
    """∂L/∂h_t = Σ_{i=t..T} (W_hhᵀ)^{T-i} W_qhᵀ ∂L/∂o_{T+t-i}, with T the last step before the cut after t."""
    torch.manual_seed(0)
    cell = LinearCell(INPUT, HIDDEN).double()
    rnn, output = RNN(cell, INPUT, HIDDEN), nn.Linear(HIDDEN, OUTPUT, bias=False).double()
    x, y = torch.randn(1, STEPS, INPUT, dtype=torch.float64), torch.randn(1, STEPS, OUTPUT, dtype=torch.float64)

    states, state = [], None
    for piece in x.split(truncate, dim=1):
        hidden, state = rnn(piece, state=state)
        states.append(hidden)
        state = detach(state)
    h = torch.cat(states, dim=1)
    o = output(h)
    h.retain_grad()
    o.retain_grad()
    (0.5 * (o - y).square().sum() / STEPS).backward()

    W_hx, W_hh, W_qh = cell.from_input.weight.detach(), cell.from_state.weight.detach(), output.weight.detach()
    d_o = (o - y)[0].detach() / STEPS
    before = torch.cat([torch.zeros(1, HIDDEN, dtype=torch.float64), h[0, :-1].detach()])
    d_W_hx, d_W_hh = torch.zeros_like(W_hx), torch.zeros_like(W_hh)
    for t in range(STEPS):
        T = min(STEPS, (t // truncate + 1) * truncate) - 1
        d_h = sum(torch.linalg.matrix_power(W_hh.T, T - i) @ W_qh.T @ d_o[T + t - i] for i in range(t, T + 1))
        d_W_hx += torch.outer(d_h, x[0, t])
        d_W_hh += torch.outer(d_h, before[t])
    torch.testing.assert_close(o.grad[0], d_o)
    torch.testing.assert_close(cell.from_input.weight.grad, d_W_hx)
    torch.testing.assert_close(cell.from_state.weight.grad, d_W_hh)
    torch.testing.assert_close(output.weight.grad, torch.einsum("to,th->oh", d_o, h[0].detach()))


PERIOD, TRUNCATE = 49, 8
CONFIG = RecurrentLanguageConfig.model_validate({"embedding": 16, "hidden": 48, "cell": "gru", "dropout": 0.0})


class Reset(Carry):
    """The same, but every batch begins from nothing."""

    def loss(self, model, batch, *, label_smoothing=0.0):
        self.carried = None
        return super().loss(model, batch, label_smoothing=label_smoothing)


def perplexity(kind) -> float:
    """Of a text of period 49 over four letters, read eight letters at a time, after learning from it like that."""
    draw = random.Random(0)
    letters = "".join(draw.choice("abcd") for _ in range(PERIOD)) * 120
    tokenizer = Tokenizer.learn([letters], TextConfig(kind="char"))
    task = TASKS["lm"](Codec({"": tokenizer}), TASKS["lm"].sections.data(train="text.txt", unit="stream"))
    column = Ragged.from_lists([tokenizer.encode(letters)])
    streams = Streams(Examples({"tokens": column}, column.lengths, None, ()), batch_tokens=128, truncate=TRUNCATE)
    torch.manual_seed(0)
    model = build_language_model(CONFIG, len(tokenizer))
    objective = kind(task, model, truncate=TRUNCATE)
    batches = (streams.collate(number) for epoch in range(8) for number in streams.epoch(epoch))
    optimizer = build_optimizer(model, kind="adam", rate=0.01, weight_decay=0.0)
    for _ in steps(model, objective, batches, optimizer=optimizer, schedule=SCHEDULES["constant"](0, 1)):
        pass
    model.eval()
    with torch.no_grad():
        losses = [objective.loss(model, streams.collate(number)) for number in streams.epoch(0)]
    return math.exp(sum(loss.total.item() for loss in losses) / sum(loss.count for loss in losses))


@pytest.mark.covers("R12")
def test_a_carried_state_remembers_what_a_piece_does_not_say():
    """Which of 49 places a piece begins at, its first letter says but in part: log(49 / 4) nats are left to the eight
    letters after it, and from nothing no model has a perplexity of less than about (49 / 4)^(1/8) = 1.37."""
    carried, reset = perplexity(Carry), perplexity(Reset)
    assert carried < 1.1
    assert reset > 1.3
