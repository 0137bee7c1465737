"""The many ways to write a step: each must give the reference's numbers, and the usual ones must get kernels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.testing import assert_close

from weft.nn import RNN, Cell
from weft.nn.recurrent.engine.plan import Plan
from weft.nn.recurrent.engine.run import plan_of

LENGTHS = torch.tensor([5, 2, 0, 4])
SIZE = 17
"""Of the state: odd, so that parts of it have sizes that no parameter has."""


class Free(Cell):
    """Something of everything to write a step with."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.w = nn.Linear(input_size, hidden_size)
        self.other = nn.Linear(input_size, hidden_size, bias=False)
        self.u = nn.Linear(hidden_size, hidden_size, bias=False)
        self.v = nn.Parameter(torch.randn(hidden_size))
        self.table = nn.Parameter(torch.randn(1, hidden_size))
        self.rate = nn.Parameter(torch.tensor(0.4))


Step = Callable[[Free, Tensor, Tensor], Tensor]
"""x (B, I), h (B, H) -> the next h, which is also the output."""

USUAL: dict[str, Step] = {
    "linear by hand": lambda c, x, h: torch.tanh(x @ c.w.weight.t() + c.w.bias + h @ c.u.weight.t()),
    "a weight not transposed": lambda c, x, h: torch.tanh(c.w(x) + h @ c.u.weight),
    "functional linear": lambda c, x, h: torch.tanh(c.w(x) + functional.linear(h, c.u.weight, c.v)),
    "addmm": lambda c, x, h: torch.tanh(torch.addmm(c.v, h, c.u.weight) + c.w(x)),
    "one weight twice": lambda c, x, h: torch.tanh(c.u(torch.tanh(c.w(x) + c.u(h))) + h),
    "a part of a weight": lambda c, x, h: torch.tanh(c.w(x) + torch.cat((h[:, 7:] @ c.u.weight[7:, :7], h[:, 7:]), 1)),
    "products multiplied": lambda c, x, h: torch.tanh(c.w(x) * c.u(h) + c.other(x)),
    "uneven parts": lambda c, x, h: torch.tanh(c.w(x) + c.u(torch.cat(h.split([7, 10], dim=-1)[::-1], dim=-1))),
    "sliced": lambda c, x, h: torch.tanh(c.w(x) + c.u(torch.cat((h[:, 11:], h[:, :11]), dim=1))),
    "columns from the end": lambda c, x, h: torch.tanh(c.w(x) + torch.cat((h[..., -3:], h[..., :-3]), -1) * c.rate),
    "a vector": lambda c, x, h: torch.sigmoid(c.v) * h + c.w(x),
    "a vector with a batch dimension": lambda c, x, h: c.table * torch.tanh(h) + c.w(x),
    "a number to learn": lambda c, x, h: c.rate * h + (1 - c.rate) * torch.tanh(c.w(x)),
    "a mask": lambda c, x, h: torch.tanh(c.w(x) + c.u(h)) * (h > 0) + 0.1 * h,
    "a choice by parameters": lambda c, x, h: torch.where(h > c.v, c.w(x) + torch.tanh(c.u(h)), 0.1 * h),
    "without gradient": lambda c, x, h: torch.tanh(c.w(x) + c.u(h.detach()) + h),
    "a linear recurrence": lambda c, x, h: c.w(x) + 0.5 * c.u(h),
    "no state": lambda c, x, h: torch.tanh(c.w(x)),
    "the input as it is": lambda c, x, h: torch.tanh(c.u(h) + torch.cat((x, h[:, 5:]), dim=-1)),
}
UNUSUAL: dict[str, Step] = {
    "a vector expanded": lambda c, x, h: torch.tanh(c.w(x) + c.u(h) + c.v.expand(x.size(0), -1)),
    "a vector expanded like the state": lambda c, x, h: torch.tanh(c.w(x) + c.u(h) + c.v.expand_as(h)),
    "a vector repeated": lambda c, x, h: torch.tanh(c.w(x) + c.u(h) + c.v.repeat(x.size(0), 1)),
    "zeros": lambda c, x, h: torch.tanh(c.w(x) + c.u(h) + torch.zeros(x.size(0), SIZE, dtype=x.dtype)),
    "ones times a vector": lambda c, x, h: torch.tanh(c.w(x) + c.u(h) + x.new_ones(x.size(0), SIZE) * c.v),
    "a full tensor": lambda c, x, h: torch.maximum(c.w(x) + c.u(h), torch.full_like(h, 0.1)),
    "a tensor made on the spot": lambda c, x, h: torch.tanh(c.w(x) + torch.tensor(0.5, dtype=x.dtype) * c.u(h)),
    "a scaled product": lambda c, x, h: torch.tanh(torch.addmm(c.v, h, c.u.weight, beta=0.5, alpha=2.0) + c.w(x)),
    "a scaled product of the input": lambda c, x, h: torch.tanh(
        torch.addmm(c.v, x, c.w.weight.t(), beta=0.5, alpha=2.0) + c.other(x) + c.u(h)
    ),
    "a matrix added to a product": lambda c, x, h: torch.tanh(torch.addmm(h, h, c.u.weight) + c.w(x)),
    "a sum over the columns": lambda c, x, h: torch.tanh(c.u(h) * h.sum(-1, keepdim=True) + c.w(x)),
    "one column for all": lambda c, x, h: torch.tanh(c.u(h) * h[:, :1] + c.w(x)),
    "every other column": lambda c, x, h: torch.tanh(c.w(x) + c.u(torch.cat((h[:, ::2], h[:, 1::2]), -1))),
    "a running sum": lambda c, x, h: torch.tanh(c.w(x) + c.u(h).cumsum(-1)),
    "a norm": lambda c, x, h: functional.normalize(torch.tanh(c.w(x) + c.u(h)) + 0.1, dim=-1),
    "softmax of the state": lambda c, x, h: torch.softmax(c.u(h), dim=-1) + c.w(x),
    "softmax of the input": lambda c, x, h: torch.tanh(torch.softmax(c.w(x), dim=-1) + c.u(h)),
    "a normalised input": lambda c, x, h: torch.tanh(functional.layer_norm(c.w(x), (SIZE,), c.v) + c.u(h)),
    "a reduced input": lambda c, x, h: torch.tanh(c.w(x) * x.mean(-1, keepdim=True) + c.u(h)),
    "a bent function": lambda c, x, h: functional.gelu(c.w(x) + torch.tanh(c.u(h))),
    "a mask as numbers": lambda c, x, h: torch.tanh(c.w(x) + c.u(h)) * (h > 0).to(h.dtype) + 0.1 * h,
    "masks together": lambda c, x, h: torch.where((h > 0) & (h < c.v), c.w(x), 0.5 * h),
    "a dimension more": lambda c, x, h: torch.tanh(c.w(x)[:, None] + c.u(h)[:, None]).squeeze(1),
    "einsum": lambda c, x, h: torch.tanh(torch.einsum("bi,ij->bj", h, c.u.weight) + c.w(x)),
    "a reversed state": lambda c, x, h: torch.tanh(c.w(x) + c.u(h.flip(-1))),
    "a product with a transposed view": lambda c, x, h: torch.tanh(c.w(x) + (c.u.weight @ h.t()).t()),
    "a matrix made of the state": lambda c, x, h: torch.tanh(c.w(x) + (h[:, :, None] * h[:, None]).mean(1)),
    "indexing by a mask": lambda c, x, h: torch.tanh(c.w(x) + c.u(h) + h[:, c.v > 0].sum(-1, keepdim=True)),
    "no input": lambda c, x, h: torch.tanh(c.u(h)),
    "nothing at all": lambda c, x, h: h,
}
BY_VALUE: dict[str, Step] = {
    "if": lambda c, x, h: torch.tanh(c.w(x) + c.u(h)) if h.sum() > 0 else torch.tanh(c.w(x)),
    "item": lambda c, x, h: torch.tanh(c.w(x) * h.max().item() + c.u(h)),
    "tolist": lambda c, x, h: torch.tanh(c.w(x) * h.tolist()[0][0] + c.u(h)),
    "numpy": lambda c, x, h: torch.tanh(c.w(x) * float(h.detach().numpy()[0, 0]) + c.u(h)),
}


def written(step: Step) -> type[Cell]:
    class Written(Free):
        def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = step(self, x, h)
            return h, h

    return Written


def assert_reference(cell: type[Cell], paired: Any) -> None:
    """In double precision, where no kernel has to be compiled: what was split, hoisted and merged is the same."""
    torch.manual_seed(6)
    made = cell(5, SIZE).double()
    x = torch.randn(4, 5, 5, dtype=torch.float64)
    fast, plain = RNN(made, 5, SIZE), RNN(made, 5, SIZE, backend="reference")
    state = (torch.randn(4, SIZE, dtype=torch.float64),)
    for lengths in (None, LENGTHS):
        found, expected = (paired.measure(rnn, x, lengths, state) for rnn in (fast, plain))
        assert_close(found, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", [*USUAL, *UNUSUAL, *BY_VALUE])
def test_every_way_to_write_a_step(name: str, paired: Any) -> None:
    assert_reference(written((USUAL | UNUSUAL | BY_VALUE)[name]), paired)


@pytest.mark.parametrize("name", USUAL)
def test_a_usual_step_gets_kernels(name: str) -> None:
    plan = plan_of(written(USUAL[name])(5, SIZE))
    assert isinstance(plan, Plan), plan
    assert plan.kernels is not None, plan.refusal


@pytest.mark.parametrize("name", BY_VALUE)
def test_what_depends_on_values_is_refused(name: str) -> None:
    plan = plan_of(written(BY_VALUE[name])(5, SIZE))
    assert isinstance(plan, str)
    assert "values of a tensor" in plan


class PairState(NamedTuple):
    a: Tensor
    b: Tensor


class Pair(Free):
    state_type = PairState


class Swapped(Pair):
    def step(self, x: Tensor, state: PairState) -> tuple[Tensor, PairState]:
        new = torch.tanh(self.w(x) + self.u(state.a) + state.b)
        return new, PairState(state.b, new)


class Doubled(Pair):
    """Two names for one value, both read by what comes after the loop."""

    def step(self, x: Tensor, state: PairState) -> tuple[Tensor, PairState]:
        a = torch.tanh(self.w(x) + self.u(state.a) + state.b)
        b = 1.0 * a
        return self.u(a) + b @ self.u.weight, PairState(a, b)


class Lagging(Pair):
    """The output is made of the state before the step."""

    def step(self, x: Tensor, state: PairState) -> tuple[Tensor, PairState]:
        new = torch.tanh(self.w(x) + self.u(state.a) + state.b)
        return self.u(state.a) + state.b, PairState(new, 0.5 * state.b + new)


@pytest.mark.parametrize("cell", [Swapped, Doubled, Lagging])
def test_states_that_move_about(cell: type[Cell], paired: Any) -> None:
    pair, x = paired(cell, 5, 6, bidirectional=True), torch.randn(4, 5, 5)
    assert paired.backend_of(pair.engine) == "cpu"
    pair.assert_same(x, LENGTHS, pair.random_state(x))


class Overlapping(Cell):
    """Gates from columns that overlap: what is kept of one must not be written over what another still has to read."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.w = nn.Linear(input_size, hidden_size + 3)
        self.u = nn.Linear(hidden_size, hidden_size, bias=False)
        self.v = nn.Linear(hidden_size, hidden_size, bias=False)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        z, size = self.w(x), self.hidden_size
        r = torch.sigmoid(z[:, 3:] + self.u(h))
        h = torch.tanh(z[:, :size] + self.v(r * h)) * torch.sigmoid(z[:, 1 : size + 1]) * r
        return h, h


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
def test_columns_that_overlap(lengths: Tensor | None, paired: Any) -> None:
    pair, x = paired(Overlapping, 5, 21), torch.randn(4, 5, 5)
    assert paired.backend_of(pair.engine) == "cpu"
    pair.assert_same(x, lengths, pair.random_state(x))


class Pool(Free):
    """Every operation that the kernels know, in one loop, for the compiler to see."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        drive = self.w(x) + self.u(h)
        a = torch.exp(-drive.abs()) + torch.sqrt(1.0 + h * h) + torch.log(2.0 + torch.sin(drive))
        b = torch.cos(h) / (1.5 + torch.tanh(drive)) - torch.sigmoid(-drive) + functional.softplus(drive)
        c = torch.minimum(torch.maximum(drive, self.v), functional.leaky_relu(h, 0.2)) + functional.silu(drive)
        d = torch.where(drive >= h, drive.clamp(-0.5, 0.5), functional.hardsigmoid(h)) + functional.relu6(drive)
        e = torch.where(drive <= 0.1, h**3, (1.0 + h * h) ** -1.5) + torch.reciprocal(2.0 + torch.relu(h))
        f = torch.lerp(h, drive, 0.3) + torch.addcmul(h, drive, drive, value=0.25) + torch.rsub(h, drive, alpha=2)
        return torch.tanh(0.1 * (a + b + c)), torch.tanh(0.2 * (a - b + c + d + e - f))


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["full", "lengths"])
def test_every_operation_in_one_kernel(lengths: Tensor | None, paired: Any) -> None:
    pair, x = paired(Pool, 5, 6), 2 * torch.randn(4, 5, 5)
    assert paired.backend_of(pair.engine) == "cpu"
    pair.assert_same(x, lengths, pair.random_state(x), within=2e-5)


@pytest.mark.parametrize("value", [0.0, 1e-6, 0.3, 9.5, 30.0, 88.0, 95.0, 1e4, torch.inf, torch.nan], ids=str)
@pytest.mark.parametrize("sign", [1, -1])
def test_functions_over_their_whole_range(value: float, sign: int, paired: Any) -> None:
    """Saturated gates, overflow and NaN come out of a kernel as they come out of torch."""

    class Functions(Cell):
        def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            a, b, c = x.chunk(3, dim=-1)
            h = 0.5 * h
            return torch.cat((torch.sigmoid(a), torch.tanh(b), torch.exp(c)), dim=-1) + h, h

    pair = paired(Functions, 6, 6)
    x = torch.full((2, 3, 6), sign * value)
    found, expected = (rnn(x)[0] for rnn in (pair.engine, pair.reference))
    assert_close(found, expected, rtol=2e-6, atol=1e-37, equal_nan=True)
