"""A cell that changes after its first call: the plan that was made then must not outlive what it was made from."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations
from torch.testing import assert_close

from weft.nn import RNN, Cell

X = torch.randn(4, 5, 5, generator=torch.Generator().manual_seed(2))
LENGTHS = torch.tensor([5, 2, 0, 4])


class Adjustable(Cell):
    """Has about every kind of attribute that a step may read."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)
        self.from_state = nn.Linear(hidden_size, hidden_size)
        self.shift = nn.Parameter(torch.randn(hidden_size))
        self.register_buffer("scale", torch.ones(hidden_size))
        self.leak = 0.5
        self.dropped = 0.0
        self.activation: Callable[[Tensor], Tensor] = torch.tanh
        self.factors = [1.0, 2.0]
        self.settings = {"gain": 1.0}
        self._private = 1.0

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        new = self.activation(self.from_input(x) + self.from_state(h) * self.scale + self.shift)
        new = functional.dropout(new, self.dropped, self.training) * self.factors[0] * self.settings["gain"]
        h = self.leak * h + self._private * new
        return h, h


def double_the_first_factor(cell: Any) -> None:
    cell.factors[0] = 2.0


CHANGES: dict[str, Callable[[Any], object]] = {
    "a number": lambda cell: setattr(cell, "leak", 0.25),
    "a private number": lambda cell: setattr(cell, "_private", 0.5),
    "a function": lambda cell: setattr(cell, "activation", torch.sigmoid),
    "an entry of a table": lambda cell: cell.settings.update(gain=0.5),
    "an item of a list": double_the_first_factor,
    "a buffer in place": lambda cell: cell.scale.fill_(0.5),
    "a buffer replaced": lambda cell: setattr(cell, "scale", torch.full((6,), 0.5)),
    "a parameter in place": lambda cell: cell.shift.data.mul_(2),
    "a parameter's data": lambda cell: setattr(cell.shift, "data", torch.ones(6)),
    "a parameter replaced": lambda cell: setattr(cell, "shift", nn.Parameter(torch.ones(6))),
    "a vector by a number": lambda cell: setattr(cell, "shift", nn.Parameter(torch.tensor(0.5))),
    "a layer replaced": lambda cell: setattr(cell, "from_state", nn.Linear(6, 6)),
    "a layer without its bias": lambda cell: setattr(cell.from_input, "bias", None),
    "a layer in place of nothing": lambda cell: setattr(cell, "activation", nn.Softsign()),
    "a weight made of others": lambda cell: parametrizations.weight_norm(cell.from_state),
    "a frozen weight": lambda cell: cell.from_state.weight.requires_grad_(False),
    "another step": lambda cell: setattr(cell, "step", lambda x, h: (cell.from_input(x), h * cell.leak)),
}
SILENT = {"a weight made of others", "a frozen weight"}
"""Only the gradients tell."""


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen(change: str, paired: Any) -> None:
    torch.manual_seed(0)
    cell = Adjustable(5, 6)
    fast, plain = RNN(cell, 5, 6), RNN(cell, 5, 6, backend="reference")
    before = fast(X, LENGTHS)[0].detach()
    CHANGES[change](cell)
    found, expected = (paired.measure(rnn, X, LENGTHS) for rnn in (fast, plain))
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert change in SILENT or not torch.allclose(before, expected["output"])


def test_an_option_of_the_catalog_changed_later(paired: Any) -> None:
    pair = paired("elman")
    pair.assert_same(X)
    for rnn in (pair.engine, pair.reference):
        rnn.layers[0].cells[0].activation = "relu"
    pair.assert_same(X)


def test_training_and_evaluation_have_plans_of_their_own(paired: Any) -> None:
    cell = Adjustable(5, 6)
    cell.dropped = 0.5
    rnn = RNN(cell, 5, 6)
    assert "draws random numbers" in rnn.explain()
    torch.manual_seed(1)
    noisy, _ = rnn(X)
    rnn.eval()
    assert paired.backend_of(rnn) == "cpu"
    assert_close(rnn(X)[0], RNN(cell, 5, 6, backend="reference")(X)[0], rtol=1e-5, atol=1e-5)
    rnn.train()
    torch.manual_seed(1)
    assert torch.equal(rnn(X)[0], noisy)


def test_an_optimizer_moves_the_weights_the_same_way(paired: Any) -> None:
    pair = paired("gru", bidirectional=True)
    for rnn in (pair.engine, pair.reference):
        optimizer = torch.optim.SGD(rnn.parameters(), lr=0.1, momentum=0.9)
        for _ in range(5):
            optimizer.zero_grad()
            rnn(X, LENGTHS)[0].square().sum().backward()
            optimizer.step()
    assert_close(pair.engine.state_dict(), pair.reference.state_dict(), rtol=1e-4, atol=1e-5)


def test_moved_to_double_precision_and_back(paired: Any) -> None:
    pair = paired("lstm")
    first = pair.measure(pair.engine, X, LENGTHS)
    pair.double()
    pair.assert_same(X.double(), LENGTHS, within=1e-12)
    for rnn in (pair.engine, pair.reference):
        rnn.float()
    assert_close(pair.measure(pair.engine, X, LENGTHS), first)


def test_loaded_weights_are_used(paired: Any) -> None:
    pair = paired("mut3")
    pair.assert_same(X)
    weights = {name: -weight for name, weight in pair.engine.state_dict().items()}
    for assign in (False, True):
        for rnn in (pair.engine, pair.reference):
            rnn.load_state_dict({name: weight.clone() for name, weight in weights.items()}, assign=assign)
        pair.assert_same(X)


def test_a_copy_is_a_network_of_its_own(paired: Any) -> None:
    pair = paired("lstm")
    before, _ = pair.engine(X)
    other = copy.deepcopy(pair.engine)
    assert torch.equal(other(X)[0], before)
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(2)
    assert torch.equal(pair.engine(X)[0], before)
    assert not torch.allclose(other(X)[0], before)


def test_one_cell_in_two_networks_shares_its_weights(paired: Any) -> None:
    pair = paired("gru")
    cell = pair.engine.layers[0].cells[0]
    twice = RNN(cell, 5, 6, backend="engine")
    pair.engine.zero_grad()
    (pair.engine(X)[0] + twice(X, LENGTHS)[0]).sum().backward()
    found = [parameter.grad.clone() for parameter in cell.parameters()]
    pair.reference.zero_grad()
    (pair.reference(X)[0] + pair.reference(X, LENGTHS)[0]).sum().backward()
    assert_close(found, [parameter.grad for parameter in pair.reference.parameters()], rtol=1e-5, atol=1e-5)


def test_a_plan_goes_with_its_cell() -> None:
    """A weak table: cells that are gone must not be kept alive by what was planned for them."""
    import gc
    import weakref

    rnn = RNN("lstm", 5, 6)
    rnn(X)
    gone = weakref.ref(rnn.layers[0].cells[0])
    del rnn
    gc.collect()
    assert gone() is None
