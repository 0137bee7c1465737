"""Cells as a user would write them, one network run twice (by the engine and step by step), models for plain search."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.decoding import Hypothesis, Step
from weft.nn import CELLS, RNN, Cell, CellChoice, State, map_state
from weft.nn.state import leaves_of


class MinimalGated(Cell):
    """One gate; both maps of the state in one product."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 2 * hidden_size)
        self.from_state = nn.Linear(hidden_size, 2 * hidden_size, bias=False)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        f_x, candidate_x = self.from_input(x).chunk(2, dim=-1)
        f_h, candidate_h = self.from_state(h).chunk(2, dim=-1)
        f = torch.sigmoid(f_x + f_h)
        h = (1 - f) * h + f * torch.tanh(candidate_x + f * candidate_h)
        return h, h


class Chained(Cell):
    """Two products a step, the second of what the first gave."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)
        self.inner = nn.Linear(hidden_size, 2 * hidden_size)
        self.outer = nn.Linear(2 * hidden_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = h + torch.tanh(self.outer(torch.relu(self.inner(h))) + self.from_input(x))
        return torch.sigmoid(h), h


class Readout(Cell):
    """The output is a linear map of the new state and of the input."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.output_size = hidden_size + 1
        self.from_input = nn.Linear(input_size, hidden_size)
        self.from_state = nn.Linear(hidden_size, hidden_size, bias=False)
        self.read = nn.Linear(hidden_size, self.output_size)
        self.direct = nn.Linear(input_size, self.output_size, bias=False)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.from_input(x) + self.from_state(h))
        return torch.sigmoid(self.read(h) + self.direct(x)), h


class GatesState(NamedTuple):
    h: Tensor
    c: Tensor


class Gates(Cell):
    """Four gates told apart by a dimension of their own."""

    state_type = GatesState

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 4 * hidden_size)
        self.from_state = nn.Linear(hidden_size, 4 * hidden_size, bias=False)

    def step(self, x: Tensor, state: GatesState) -> tuple[Tensor, GatesState]:
        gates = self.from_input(x) + self.from_state(state.h)
        i, f, g, o = gates.view(x.size(0), 4, self.hidden_size).unbind(1)
        c = torch.sigmoid(f) * state.c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, GatesState(h, c)


class TracesState(NamedTuple):
    fast: Tensor
    slow: Tensor


class Traces(Cell):
    """No product in the loop: a number and vectors to learn, and functions with corners."""

    state_type = TracesState

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)
        self.rate = nn.Parameter(torch.tensor(0.3))
        self.decay = nn.Parameter(torch.linspace(0.1, 0.9, hidden_size))
        self.floor = nn.Parameter(torch.full((1, hidden_size), 0.1))

    def step(self, x: Tensor, state: TracesState) -> tuple[Tensor, TracesState]:
        drive = self.from_input(x)
        fast = torch.sigmoid(self.decay) * state.fast + self.rate * torch.relu(drive - state.slow.abs())
        slow = torch.where(fast > state.slow, 0.9 * state.slow + 0.1 * fast, 0.5 * state.slow)
        slow = torch.maximum(torch.clamp(slow, max=0.8), self.floor)
        return fast - slow, TracesState(fast, slow)


class Separate(Cell):
    """A linear map of the input for each of its uses, with and without a bias."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.gate_from_input = nn.Linear(input_size, hidden_size)
        self.candidate_from_input = nn.Linear(input_size, hidden_size, bias=False)
        self.scale_from_input = nn.Linear(input_size, hidden_size)
        self.gate_from_state = nn.Linear(hidden_size, hidden_size)
        self.candidate_from_state = nn.Linear(hidden_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        z = torch.sigmoid(self.gate_from_input(x) + self.gate_from_state(h))
        candidate = torch.tanh(self.candidate_from_input(x) + self.candidate_from_state(h))
        h = z * h + (1 - z) * candidate * self.scale_from_input(x)
        return h, h


class NormalisedInput(Cell):
    """Normalises what comes from the input, so before the loop."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)
        self.norm = nn.LayerNorm(hidden_size)
        self.from_state = nn.Linear(hidden_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.norm(self.from_input(x)) + self.from_state(h))
        return h, h


class NormalisedState(NormalisedInput):
    """Normalises a sum with the state: no kernel knows that."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.norm(self.from_input(x) + self.from_state(h)))
        return h, h


class InPlace(NormalisedInput):
    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.norm(self.from_input(x)) + self.from_state(h.mul_(0.9)))
        return h, h


class Noisy(NormalisedInput):
    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.norm(self.from_input(x)) + self.from_state(h) + 0.1 * torch.randn_like(h))
        return h, h


class Branching(NormalisedInput):
    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        drive = self.norm(self.from_input(x))
        h = torch.tanh(drive + self.from_state(h)) if h.sum() > 0 else torch.tanh(drive)
        return h, h


VARIANTS: list[dict[str, Any]] = [
    {"kind": "elman", "activation": "relu"},
    {"kind": "elman", "activation": "sigmoid"},
    {"kind": "elman", "activation": "identity"},
    {"kind": "elman", "feedback": True},
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
KERNELS: list[type[Cell]] = [MinimalGated, Chained, Readout, Gates, Traces, Separate, NormalisedInput]
STEP_BY_STEP: dict[type[Cell], str] = {
    InPlace: "changes a tensor in place",
    Noisy: "draws random numbers",
    Branching: "depends on the values of a tensor",
}


class Case(NamedTuple):
    """A cell, and the backend that has to run it on a CPU with a compiler."""

    choice: CellChoice
    backend: str


CASES = {
    **{name: Case(name, "cpu") for name in CELLS},
    **{"-".join(map(str, options.values())): Case(options, "cpu") for options in VARIANTS},
    **{cell.__name__: Case(cell, "cpu") for cell in KERNELS},
    "NormalisedState": Case(NormalisedState, "plain"),
}


BACKENDS = {
    "on the CPU, in C compiled for this machine": "cpu",
    "in plain torch, step by step with the input's products hoisted": "plain",
    "step by step, the cell as it is written": "reference",
}


def backend_of(rnn: RNN) -> str:
    """What runs the first layer, by what the network says of itself."""
    first = rnn.explain().splitlines()[0]
    return next(backend for words, backend in BACKENDS.items() if f"runs {words}" in first)


def loss_of(*values: Any) -> Tensor:
    """A number in which each number of some tensors and states has a weight of its own."""
    parts = [part for value in values for part in leaves_of(value)]
    return sum((part * torch.arange(1, part.numel() + 1).to(part).view_as(part).cos()).sum() for part in parts)


def measure(rnn: RNN, x: Tensor, lengths: Tensor | None = None, state: State = None) -> dict[str, Tensor]:
    """Outputs, last states, and the gradients of a loss over all of them, by name; nobody's gradient is zero."""
    torch.manual_seed(5)
    x = x.detach().clone().requires_grad_()
    if state is not None:
        state = map_state(lambda tensor: tensor.detach().clone().requires_grad_(), state)
    rnn.zero_grad()
    output, final = rnn(x, lengths, state)
    loss_of(output, final).backward()
    named = {"output": output, "x": gradient(x)}
    named |= {f"final {number}": part for number, part in enumerate(leaves_of(final))}
    named |= {f"start {number}": gradient(part) for number, part in enumerate(leaves_of(state))}
    return named | {name: gradient(parameter) for name, parameter in rnn.named_parameters()}


def gradient(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad.clone()


class Paired:
    """One network twice, with the same weights: run by the engine, and by the reference."""

    def __init__(self, cell: CellChoice, input_size: int = 5, hidden_size: Any = 6, **settings: Any) -> None:
        torch.manual_seed(11)
        alone = isinstance(cell, type) and cell in STEP_BY_STEP
        self.engine = RNN(cell, input_size, hidden_size, backend="auto" if alone else "engine", **settings)
        self.reference = RNN(cell, input_size, hidden_size, backend="reference", **settings)
        with torch.no_grad():
            for parameter in self.engine.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        self.reference.load_state_dict(self.engine.state_dict())

    loss_of = staticmethod(loss_of)
    measure = staticmethod(measure)
    backend_of = staticmethod(backend_of)

    def double(self) -> Paired:
        self.engine.double()
        self.reference.double()
        return self

    def random_state(self, x: Tensor) -> State:
        """A state that the cell can reach: a normaliser, for one, is never negative."""
        dtype = next((weight.dtype for weight in self.reference.parameters()), x.dtype)
        with torch.no_grad():
            _, state = self.reference(torch.randn(x.size(0), 3, x.size(2), dtype=dtype))
        return map_state(lambda part: part.to(x.dtype), state)

    def assert_same(
        self, x: Tensor, lengths: Tensor | None = None, state: State = None, *, within: float = 1e-5
    ) -> None:
        """Outputs, last states and the gradients of everything, by the two ways of running."""
        found, expected = (measure(rnn, x, lengths, state) for rnn in (self.engine, self.reference))
        assert_close(found, expected, rtol=within, atol=within)


@pytest.fixture(params=CASES.values(), ids=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(params=STEP_BY_STEP.items(), ids=[cell.__name__ for cell in STEP_BY_STEP])
def step_by_step(request: pytest.FixtureRequest) -> tuple[type[Cell], str]:
    """A cell that only the reference can run, and the reason."""
    found: tuple[type[Cell], str] = request.param
    return found


@pytest.fixture
def own() -> dict[str, type[Cell]]:
    """The cells written here, by name."""
    return {cell.__name__: cell for cell in (*KERNELS, NormalisedState, *STEP_BY_STEP)}


@pytest.fixture
def paired() -> type[Paired]:
    return Paired


class Plain:
    """A model that only knows states that grow."""

    def __init__(self, model: nn.Module) -> None:
        self.model: Any = model
        self.longest = self.model.longest

    def start(self, memory: Any, rows: Tensor) -> Any:
        return self.model.start(memory, rows)

    def step(self, tokens: Tensor, state: Any) -> Step:
        found: Step = self.model.step(tokens, state)
        return found


@pytest.fixture
def plain() -> Callable[[nn.Module], Plain]:
    return Plain


@pytest.fixture
def same_hypotheses() -> Callable[[list[list[Hypothesis]], list[list[Hypothesis]]], None]:
    """The same texts, and the same numbers up to rounding."""

    def compare(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
        texts = [
            [[(one.tokens, one.finished, one.path) for one in own] for own in every] for every in (found, expected)
        ]
        assert texts[0] == texts[1]
        for one, other in zip(itertools.chain(*found), itertools.chain(*expected), strict=True):
            assert one.score == pytest.approx(other.score)
            assert one.log_probabilities == pytest.approx(other.log_probabilities)
            assert_close(one.attention, other.attention)

    return compare
