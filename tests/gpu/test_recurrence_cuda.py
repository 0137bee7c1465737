"""The recurrence engine on a GPU against the plain loop there: its numbers, and the reuse of what was captured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.nn import CELLS, RNN, Cell, CellChoice, State, map_state
from weft.nn.state import leaves_of

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")

DEVICE = "cuda"
LENGTHS = torch.tensor([5, 2, 0, 4])


class MinimalGated(Cell):
    """One product a step."""

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
    """Two products a step, the second of what the first gave; the output takes a third, after the loop."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.output_size = hidden_size + 1
        self.from_input = nn.Linear(input_size, hidden_size)
        self.inner = nn.Linear(hidden_size, 2 * hidden_size)
        self.outer = nn.Linear(2 * hidden_size, hidden_size)
        self.read = nn.Linear(hidden_size, self.output_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = 0.5 * h + torch.tanh(self.outer(torch.sigmoid(self.inner(h))) + self.from_input(x))
        return torch.sigmoid(self.read(h)), h


class TracesState(NamedTuple):
    fast: Tensor
    slow: Tensor


class Traces(Cell):
    """No product in the loop: a number and a vector to learn, masks and functions with corners."""

    state_type = TracesState

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)
        self.rate = nn.Parameter(torch.tensor(0.3))
        self.decay = nn.Parameter(torch.linspace(0.1, 0.9, hidden_size))

    def step(self, x: Tensor, state: TracesState) -> tuple[Tensor, TracesState]:
        drive = self.from_input(x)
        fast = torch.sigmoid(self.decay) * state.fast + self.rate * torch.relu(drive - state.slow.abs())
        slow = torch.where(fast > state.slow, 0.9 * state.slow + 0.1 * fast, 0.5 * state.slow)
        return fast * (drive > 0) - slow.clamp(max=0.4), TracesState(fast, slow)


VARIANTS: list[dict[str, Any]] = [
    {"kind": "elman", "activation": "relu"},
    {"kind": "elman", "feedback": True},
    {"kind": "lstm", "candidate": "sigmoid"},
    {"kind": "peephole_lstm", "peepholes": "full"},
    {"kind": "gru", "update": "state"},
    {"kind": "gru_reset_after", "update": "state"},
]
CASES: dict[str, CellChoice] = {
    **{name: name for name in CELLS},
    **{"-".join(map(str, options.values())): options for options in VARIANTS},
    **{cell.__name__: cell for cell in (MinimalGated, Chained, Traces)},
}


class Paired:
    """One network twice, with the same weights: run by the engine, and by the reference in float32."""

    def __init__(self, cell: CellChoice, input_size: int = 5, hidden_size: Any = 6, **settings: Any) -> None:
        torch.manual_seed(11)
        self.engine = RNN(cell, input_size, hidden_size, backend="engine", **settings).to(DEVICE)
        self.reference = RNN(cell, input_size, hidden_size, backend="reference", **settings).to(DEVICE)
        with torch.no_grad():
            for parameter in self.engine.parameters():
                parameter.add_(0.2 * torch.randn_like(parameter))
        self.copy()
        assert "runs on the GPU" in self.engine.explain()

    def copy(self) -> None:
        self.reference.load_state_dict(self.engine.state_dict())

    def assert_same(self, x: Tensor, lengths: Tensor | None = None, *, started: bool = True, **more: Tensor) -> None:
        """To 1e-4: outputs, last states and the gradients of everything."""
        state = random_state(self.engine, x) if started else None
        found, expected = (measure(rnn, x, lengths, state, **more) for rnn in (self.engine, self.reference))
        assert_close(found, expected, rtol=1e-4, atol=1e-4)


def random_state(rnn: RNN, x: Tensor) -> State:
    return map_state(torch.randn_like, rnn.initial_state(x.size(0), x))


def loss_of(*values: Any) -> Tensor:
    """A number in which each number of some tensors and states has a weight of its own."""
    parts = [part.float() for value in values for part in leaves_of(value)]
    return sum((part * torch.arange(1, part.numel() + 1).to(part).view_as(part).cos()).sum() for part in parts)


def measure(
    rnn: RNN, x: Tensor, lengths: Tensor | None = None, state: State = None, **more: Tensor
) -> dict[str, Tensor]:
    """Outputs, last states, and the gradients of a loss over all of them, by name."""
    x = x.detach().clone().requires_grad_()
    if state is not None:
        state = map_state(lambda tensor: tensor.detach().clone().requires_grad_(), state)
    rnn.zero_grad()
    output, final = rnn(x, lengths, state, **more)
    loss_of(output, final).backward()
    named = {"output": output.detach(), "x": x.grad}
    named |= {f"final {number}": part.detach() for number, part in enumerate(leaves_of(final))}
    named |= {f"start {number}": part.grad for number, part in enumerate(leaves_of(state))}
    zero = torch.zeros_like
    return named | {name: zero(p) if p.grad is None else p.grad.clone() for name, p in rnn.named_parameters()}


def data(batch: int, time: int, size: int = 5) -> Tensor:
    return torch.randn(batch, time, size, device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(batch + time))


def assert_near(found: dict[str, Tensor], expected: dict[str, Tensor], within: float) -> None:
    """Small floats lose digits everywhere a little: whole tensors are compared, those of gradients less strictly."""
    for name, right in expected.items():
        error = (found[name].float() - right).norm() / right.norm().clamp(min=1e-3)
        result = name == "output" or name.startswith("final")
        assert error < (within if result else 3 * within), f"{name} is off by {error:.4f}"


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    places = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [place.allow_tf32 for place in places]
    for place in places:
        place.allow_tf32 = False
    torch.manual_seed(2)
    yield
    for place, value in zip(places, before, strict=True):
        place.allow_tf32 = value


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_float32(case: CellChoice) -> None:
    Paired(case).assert_same(data(4, 5))
    Paired(case, bidirectional=True).assert_same(data(4, 5), LENGTHS)


SMOOTH = {name: case for name, case in CASES.items() if name != "Traces"}
"""Where a rounded number falls on the other side of a corner, the gradient is another one."""


@pytest.mark.parametrize("case", SMOOTH.values(), ids=SMOOTH)
def test_bfloat16(case: CellChoice) -> None:
    """The state is carried in float32, so that only the inputs of products are rounded."""
    pair, x = Paired(case, 32, 48, bidirectional=True), data(4, 5, 32).bfloat16()
    pair.engine.bfloat16()
    pair.copy()
    state = random_state(pair.engine, x)
    if case == "s_lstm":  # a random normaliser divides by numbers close to zero
        state = pair.engine.initial_state(x.size(0), x)
    found = measure(pair.engine, x, LENGTHS, state)
    assert found["output"].dtype == torch.bfloat16
    assert_near(found, measure(pair.reference, x.float(), LENGTHS, map_state(Tensor.float, state)), 3e-2)


def test_float16() -> None:
    pair, x = Paired("lstm", 32, 48), data(4, 5, 32).half()
    pair.engine.half()
    pair.copy()
    assert_near(measure(pair.engine, x, LENGTHS), measure(pair.reference, x.float(), LENGTHS), 1e-2)


@pytest.mark.parametrize("place", ["cpu", DEVICE])
@pytest.mark.parametrize("lengths", [[5, 5, 5, 5], [5, 2, 0, 4], [1, 1, 1, 0], [0, 0, 0, 0]], ids=str)
def test_lengths(lengths: list[int], place: str) -> None:
    Paired("gru", bidirectional=True).assert_same(data(4, 5), torch.tensor(lengths, device=place))


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_resets(case: CellChoice) -> None:
    """Segments may begin anywhere in a row, and what lies past the end of one may be the next."""
    resets = torch.tensor([[0, 0, 1, 1, 0], [1, 0, 0, 1, 0], [1, 1, 0, 0, 0], [0, 0, 0, 1, 0]], dtype=torch.bool)
    pair = Paired(case, bidirectional=True, initial="learned")
    pair.assert_same(data(4, 5), LENGTHS, resets=resets)
    pair.assert_same(data(4, 5), resets=resets.to(DEVICE))


def test_padding_may_hold_anything() -> None:
    rnn, x = Paired("lstm", layers=2, bidirectional=True).engine, data(4, 5)
    clean = measure(rnn, x, LENGTHS)
    garbage = x.clone()
    garbage[1, 2:], garbage[2], garbage[3, 4:] = torch.nan, torch.inf, 1e30
    found = measure(rnn, garbage, LENGTHS)
    clean["x"] = clean["x"].masked_fill(torch.arange(5, device=DEVICE)[:, None] >= LENGTHS.to(DEVICE)[:, None, None], 0)
    assert_close(found, clean, rtol=0, atol=0)


@pytest.mark.parametrize(
    "settings",
    [
        {"hidden_size": [6, 3, 7]},
        {"layers": 2, "initial": "learned"},
        {"layers": 3, "skip": "dense"},
        {"bidirectional": True, "merge": "sum", "layers": 2},
        {"bidirectional": True, "merge": "project", "initial": "learned"},
    ],
    ids=["sizes", "learned", "dense", "sum", "project"],
)
def test_builds(settings: dict[str, Any]) -> None:
    Paired("gru", **settings).assert_same(data(4, 5), LENGTHS)
    Paired("projected_lstm", **settings).assert_same(data(4, 5), LENGTHS, started=False)


@pytest.mark.parametrize("hidden", [1, 3, 17, 33, 129])
def test_odd_sizes(hidden: int) -> None:
    Paired("lstm", 3, hidden).assert_same(data(3, 4, 3), torch.tensor([4, 1, 3]))


def test_batches_of_changing_shape_reuse_what_was_captured() -> None:
    """Also with steps that make several chunks, the last one odd; and back to a shape that was there before."""
    pair = Paired("gru", bidirectional=True)
    for batch, time in ((4, 5), (9, 67), (1, 1), (4, 5), (3, 130), (17, 2), (9, 67), (8, 5)):
        x = data(batch, time)
        pair.assert_same(x)
        pair.assert_same(x, torch.arange(batch) % (time + 1))


def test_graphs_that_no_longer_fit_are_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.nn.recurrent.engine import cuda

    monkeypatch.setattr(cuda, "MAX_SESSIONS", 2)
    pair = Paired("elman", 5, 7)
    for batch in (4, 12, 20, 4, 20, 12):
        pair.assert_same(data(batch, 6))


def test_nothing_to_do() -> None:
    rnn = Paired("lstm").engine
    for shape in ((0, 4), (3, 0)):
        output, final = rnn(torch.randn(*shape, 5, device=DEVICE))
        assert output.shape == (*shape, 6)
        assert_close(leaves_of(final), leaves_of(rnn.initial_state(shape[0], output)))


def test_called_twice_before_one_backward() -> None:
    pair, one, other = Paired("lstm", bidirectional=True), data(4, 5), data(4, 6)[:, :5]
    found = []
    for rnn in (pair.engine, pair.reference):
        rnn.zero_grad()
        inputs = [x.clone().requires_grad_() for x in (one, other)]
        first, second = (rnn(x, LENGTHS) for x in inputs)
        loss_of(*first, *second, first[0] * second[0]).backward()
        found.append([first[0], second[0], *(x.grad for x in inputs), *(p.grad for p in rnn.parameters())])
    assert_close(*found, rtol=1e-4, atol=1e-4)


def test_backward_twice_over_one_graph() -> None:
    pair = Paired("gru", bidirectional=True)
    for rnn in (pair.engine, pair.reference):
        loss = loss_of(*rnn(data(4, 5), LENGTHS))
        rnn.zero_grad()
        loss.backward(retain_graph=True)
        once = [parameter.grad.clone() for parameter in rnn.parameters()]
        loss.backward()
        assert_close([parameter.grad for parameter in rnn.parameters()], [2 * gradient for gradient in once])


def test_two_networks_in_turn() -> None:
    """Of one plan, so that they share graphs and the buffers these are bound to."""
    first, second, x = Paired("lstm"), Paired("lstm"), data(4, 5)
    with torch.no_grad():
        for parameter in second.engine.parameters():
            parameter.mul_(-0.5)
    second.copy()
    found = []
    for side in ("engine", "reference"):
        rnns = [getattr(pair, side) for pair in (first, second)]
        for rnn in rnns:
            rnn.zero_grad()
        outputs = [rnn(x)[0] for rnn in rnns]
        for output in outputs:
            output.square().sum().backward()
        found.append([*outputs, *(parameter.grad for rnn in rnns for parameter in rnn.parameters())])
    assert_close(*found, rtol=1e-4, atol=1e-4)


def test_the_same_call_gives_the_same_bits() -> None:
    rnn, x = Paired("lstm", bidirectional=True).engine, data(4, 5)
    first, *others = [measure(rnn, x, LENGTHS) for _ in range(3)]
    for other in others:
        assert_close(other, first, rtol=0, atol=0)


def test_without_gradients_and_with_some() -> None:
    rnn, x = Paired("peephole_lstm").engine, data(4, 5)
    expected = measure(rnn, x, LENGTHS)
    for quiet in (torch.no_grad(), torch.inference_mode()):
        with quiet:
            assert_close(rnn(x, LENGTHS)[0], expected["output"])
    rnn.requires_grad_(False)
    inputs = x.clone().requires_grad_()
    loss_of(*rnn(inputs, LENGTHS)).backward()
    assert_close(inputs.grad, expected["x"])


def test_changed_and_moved_weights_are_seen() -> None:
    pair, x = Paired("gru"), data(4, 5)
    pair.assert_same(x)
    optimizer = torch.optim.SGD(pair.engine.parameters(), lr=0.1)
    pair.engine(x)[0].sum().backward()
    optimizer.step()
    pair.copy()
    pair.assert_same(x)
    there = pair.engine(x)[0]
    here = pair.engine.cpu()(x.cpu())[0]
    assert_close(here, there.cpu(), rtol=1e-4, atol=1e-4)
    pair.engine.to(DEVICE)
    pair.assert_same(x)
