"""Steps without products: which are linear in their state is proved, and a scan over time gives what the loop gives."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import RNN, Cell, CellChoice, State, map_state
from weft.nn.recurrent.engine.argument import Kind
from weft.nn.recurrent.engine.chunks import Chunks, Machine, choose_chunks
from weft.nn.recurrent.engine.expr import Builder
from weft.nn.recurrent.engine.known import plan_of
from weft.nn.recurrent.engine.linear import StepClass, affine
from weft.nn.recurrent.engine.plan import Kernels, Plan
from weft.nn.recurrent.layer import Backend
from weft.nn.state import leaves_of

LINEAR: list[CellChoice] = [
    "min_gru",
    {"kind": "min_gru", "candidate": "positive"},
    "min_lstm",
    {"kind": "sru", "state_in_gates": False},
    {"kind": "qrnn", "window": 1},
    {"kind": "ind_rnn", "activation": "identity"},
    "rg_lru",
    "hgrn",
]
ELEMENTWISE: list[CellChoice] = ["sru", "ind_rnn", {"kind": "ind_rnn", "activation": "tanh"}]
PRODUCT: list[CellChoice] = ["elman", "gru", "lstm", "janet", "s_lstm", "minimal_gated"]


class ChainState(NamedTuple):
    c: Tensor
    d: Tensor
    mean: Tensor


class Chain(Cell):
    """d reads c in its gate, and a mean of the input has columns of its own; a vector and a number are learned."""

    state_type = ChainState

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, 2 * hidden_size)
        self.decay = nn.Parameter(torch.linspace(-1, 1, hidden_size))
        self.rate = nn.Parameter(torch.tensor(0.3))

    def step(self, x: Tensor, state: ChainState) -> tuple[Tensor, ChainState]:
        z, candidate = self.from_input(x).chunk(2, dim=-1)
        z = torch.sigmoid(z)
        c = (1 - z) * state.c + z * candidate
        d = torch.sigmoid(self.decay + state.c) * state.d + self.rate * torch.tanh(c)
        return torch.sigmoid(candidate) * torch.tanh(d), ChainState(c, d, 0.9 * state.mean + 0.1 * x)

    def zero_state(self, batch: int, like: Tensor) -> State:
        c = like.new_zeros(batch, self.hidden_size)
        return ChainState(c, c.clone(), like.new_zeros(batch, self.input_size))


class Halves(Cell):
    """The output adds the halves of the state, which are lanes of their own until then."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.output_size = hidden_size // 2
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = torch.sigmoid(self.from_input(x)) * h + 1
        left, right = h.chunk(2, dim=-1)
        return left * right, h


def kernels(choice: CellChoice) -> Kernels:
    (cell,) = RNN(choice, 5, 6).layers[0].cells
    found = plan_of(cell)
    assert isinstance(found, Plan), found
    assert found.kernels is not None, found.refusal
    return found.kernels


@pytest.mark.parametrize(
    ("choice", "expected"),
    [(choice, StepClass.LINEAR) for choice in (*LINEAR, Chain, Halves)]
    + [(choice, StepClass.ELEMENTWISE) for choice in ELEMENTWISE]
    + [(choice, StepClass.PRODUCT) for choice in PRODUCT],
)
def test_the_class_of_cells(choice: CellChoice, expected: StepClass) -> None:
    assert kernels(choice).step_class is expected


Step = Callable[[Any, list[Tensor], list[Tensor]], Tensor]
"""(the cell, columns from the input, states before) -> the next value of one state."""


class Written(Cell):
    """A step made of functions, one for each state, of which later ones in `order` may read earlier ones."""

    state_type = None

    def __init__(self, input_size: int, hidden_size: int, steps: list[Step]) -> None:
        super().__init__(input_size, hidden_size)
        self.steps = steps
        self.from_input = nn.Linear(input_size, 3 * hidden_size)
        self.from_state = nn.Linear(hidden_size, hidden_size)
        self.vector = nn.Parameter(torch.zeros(hidden_size))

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        columns = list(self.from_input(x).chunk(3, dim=-1))
        before = list(state.chunk(len(self.steps), dim=-1))
        after = [step(self, columns, before) for step in self.steps]
        return torch.tanh(after[0]), torch.cat(after, dim=-1)

    def zero_state(self, batch: int, like: Tensor) -> State:
        return like.new_zeros(batch, self.hidden_size * len(self.steps))


def read(random: Random, earlier: list[int]) -> Step:
    """A value of the input, of parameters, or of a state that comes before."""
    column = random.randrange(3)
    choices: list[Step] = [
        lambda cell, x, h: torch.sigmoid(x[column]),
        lambda cell, x, h: torch.exp(-torch.nn.functional.softplus(x[column])),
        lambda cell, x, h: torch.tanh(cell.vector) * x[column],
        lambda cell, x, h: torch.where(x[column] > 0, cell.vector, x[column - 1]),
        lambda cell, x, h: 1 - torch.sigmoid(x[column] * x[column - 1]),
    ]
    if earlier:
        other = random.choice(earlier)
        choices += [lambda cell, x, h: torch.sigmoid(h[other] + x[column]), lambda cell, x, h: h[other] * h[other]]
    return random.choice(choices)


def linear_step(random: Random, k: int, earlier: list[int]) -> Step:
    a, b = read(random, earlier), read(random, earlier)
    choices: list[Step] = [
        lambda cell, x, h: a(cell, x, h) * h[k] + b(cell, x, h),
        lambda cell, x, h: b(cell, x, h) - h[k] * a(cell, x, h),
        lambda cell, x, h: (h[k] - b(cell, x, h)) * a(cell, x, h) + h[k],
        lambda cell, x, h: torch.where(x[0] > 0, a(cell, x, h) * h[k], b(cell, x, h)),
        lambda cell, x, h: h[k] / (1 + torch.sigmoid(a(cell, x, h))) - 0.5 * h[k],
        lambda cell, x, h: 0.9 * (b(cell, x, h) - (h[k] - (0.5 * h[k] + a(cell, x, h)))),
        lambda cell, x, h: h[k] + 0.25 * (b(cell, x, h) - h[k]),
    ]
    return random.choice(choices)


def spoiled_step(random: Random, k: int, earlier: list[int]) -> Step:
    """A step that is not linear in its own state, or reads a state that reads it."""
    plain, a = linear_step(random, k, earlier), read(random, earlier)
    choices: list[Step] = [
        lambda cell, x, h: torch.sigmoid(x[0] + cell.vector * h[k]) * h[k] + a(cell, x, h),
        lambda cell, x, h: torch.tanh(plain(cell, x, h) + h[k]),
        lambda cell, x, h: plain(cell, x, h) + h[k] * h[k],
        lambda cell, x, h: torch.maximum(a(cell, x, h), h[k]) + a(cell, x, h),
        lambda cell, x, h: torch.where(h[k] > 0, h[k], a(cell, x, h)),
        lambda cell, x, h: a(cell, x, h) / (2 + h[k]),
        lambda cell, x, h: plain(cell, x, h) + 0.1 * h[k].abs(),
        lambda cell, x, h: h[k].clamp(min=0.1) + a(cell, x, h),
    ]
    return random.choice(choices)


def behaviour(cell: Written) -> StepClass:
    """The class of a step by what it computes in float64, whatever its operations: which columns of a state change
    which of the next one, and whether a state's second difference in itself is zero."""
    cell, count, width = cell.double(), len(cell.steps), cell.hidden_size
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.normal_(generator=random)
    x = 2 * torch.randn(200, cell.input_size, generator=random, dtype=torch.float64)
    before = 3 * torch.randn(200, count * width, generator=random, dtype=torch.float64)
    after = cell.step(x, before)[1]
    reads: list[set[int]] = [set() for _ in range(count)]
    straight = True
    for state in range(count):
        for column in range(width):
            shift = torch.zeros_like(before)
            shift[:, state * width + column] = 2 * torch.randn(200, generator=random, dtype=torch.float64)
            up, down = (cell.step(x, before + sign * shift)[1] for sign in (1, -1))
            changed = ((up - after).abs() > 1e-9).any(0).view(count, width)
            if changed[:, [other for other in range(width) if other != column]].any():
                return StepClass.PRODUCT
            for other in range(count):
                if changed[other, column]:
                    reads[other].add(state)
            bend = (up + down - 2 * after).abs() / (1 + after.abs() + up.abs() + down.abs())
            straight &= bool((bend[:, state * width + column] < 1e-9).all())
    ordered: set[int] = set()
    while ready := [k for k in range(count) if k not in ordered and reads[k] - {k} <= ordered]:
        ordered.update(ready)
    return StepClass.LINEAR if straight and len(ordered) == count else StepClass.ELEMENTWISE


@settings(max_examples=200, deadline=None)
@given(random=st.randoms(use_true_random=False), expected=st.sampled_from(list(StepClass)))
def test_random_steps_are_classified_right(random: Random, expected: StepClass) -> None:
    states = random.randint(1, 3)
    order = random.sample(range(states), states)
    spoiled = random.choice(order)
    coupled = states > 1 and random.random() < 0.3
    steps: dict[int, Step] = {}
    for place, k in enumerate(order):
        steps[k] = linear_step(random, k, order[:place])
        if k == spoiled and expected is StepClass.ELEMENTWISE and not coupled:
            steps[k] = spoiled_step(random, k, order[:place])
    if expected is StepClass.ELEMENTWISE and coupled:  # two states that read each other, each linear by itself
        first, second = order[0], order[1]
        one, two = steps[first], steps[second]
        steps[first] = lambda cell, x, h: one(cell, x, h) + 0.1 * h[second]
        steps[second] = lambda cell, x, h: two(cell, x, h) - torch.sigmoid(h[first])
    if expected is StepClass.PRODUCT:
        other, plain = random.randrange(states), steps[spoiled]
        steps[spoiled] = lambda cell, x, h: plain(cell, x, h) + cell.from_state(torch.tanh(h[other]))
    cell = Written(4, 3, [steps[k] for k in range(states)])
    found = plan_of(cell)
    assert isinstance(found, Plan)
    assert found.kernels is not None
    assert found.kernels.step_class is expected
    assert behaviour(cell) is expected


def any_expression(random: Random, states: int, depth: int) -> Step:
    """Any operations that the kernels know, on anything."""
    if depth == 0 or random.random() < 0.15:
        column, state = random.randrange(3), random.randrange(states)
        leaves: list[Step] = [
            lambda cell, x, h: x[column],
            lambda cell, x, h: h[state],
            lambda cell, x, h: torch.sigmoid(x[column]),
            lambda cell, x, h: x[column] * (cell.vector + 0.7),
        ]
        return random.choice(leaves)
    one, two, three = (any_expression(random, states, depth - 1) for _ in range(3))
    choices: list[Step] = [
        lambda cell, x, h: one(cell, x, h) + two(cell, x, h),
        lambda cell, x, h: one(cell, x, h) - 0.5 * two(cell, x, h),
        lambda cell, x, h: one(cell, x, h) * two(cell, x, h),
        lambda cell, x, h: one(cell, x, h) / (1 + torch.exp(-two(cell, x, h).abs())),
        lambda cell, x, h: torch.where(one(cell, x, h) > 0.2, two(cell, x, h), three(cell, x, h)),
        lambda cell, x, h: torch.lerp(one(cell, x, h), two(cell, x, h), three(cell, x, h)),
        lambda cell, x, h: torch.addcmul(one(cell, x, h), two(cell, x, h), three(cell, x, h)),
        lambda cell, x, h: one(cell, x, h).masked_fill(two(cell, x, h) > 0, 0.3),
        lambda cell, x, h: torch.sigmoid(one(cell, x, h)),
        lambda cell, x, h: -one(cell, x, h),
    ]
    return random.choice(choices)


@settings(max_examples=60, deadline=None)
@given(random=st.randoms(use_true_random=False))
def test_no_step_is_taken_for_linear_that_does_not_behave_so(random: Random) -> None:
    states = random.randint(1, 3)
    parts = [any_expression(random, states, 2) for _ in range(states)]
    cell = Written(4, 2, [lambda cell, x, h, part=part: part(cell, x, h) + x[0] for part in parts])
    found = plan_of(cell)
    assert isinstance(found, Plan)
    assert found.kernels is not None
    if found.kernels.step_class is StepClass.LINEAR:
        assert behaviour(cell) is StepClass.LINEAR
    else:
        assert found.kernels.step_class is StepClass.ELEMENTWISE


Update = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(k, c, h) -> the next h, of the gate's argument k and the candidate c."""

sigmoid, softplus = torch.sigmoid, nn.functional.softplus

LINEAR_WAYS: dict[str, Update] = {
    "paper": lambda k, c, h: (1 - sigmoid(k)) * h + sigmoid(k) * c,
    "other gate": lambda k, c, h: sigmoid(-k) * h + (1 - sigmoid(-k)) * c,
    "difference": lambda k, c, h: h + sigmoid(k) * (c - h),
    "lerp": lambda k, c, h: torch.lerp(h, c, sigmoid(k)),
    "lerp back": lambda k, c, h: c.lerp(h, 1 - sigmoid(k)),
    "addcmul": lambda k, c, h: torch.addcmul(h, sigmoid(k), c - h),
    "addcdiv": lambda k, c, h: torch.addcdiv(sigmoid(k) * c, h, 1 + torch.exp(k)),
    "quotient": lambda k, c, h: (h + torch.exp(k) * c) / (1 + torch.exp(k)),
    "positive": lambda k, c, h: (1 - sigmoid(k)) * h + sigmoid(k) * torch.where(c >= 0, c + 0.5, sigmoid(c)),
    "logarithms of gates": lambda k, c, h: torch.exp(-softplus(k)) * h + torch.exp(-softplus(-k)) * c,
    "logsigmoid": lambda k, c, h: (
        torch.exp(nn.functional.logsigmoid(-k)) * h + torch.exp(nn.functional.logsigmoid(k)) * c
    ),
    "masked": lambda k, c, h: h.masked_fill(k > 0, 0.0) + sigmoid(k) * c,
}
OTHER_WAYS: dict[str, Update] = {
    "state of logarithms": lambda k, c, h: torch.logaddexp(-softplus(k) + h, -softplus(-k) + c),
    "gate reads h": lambda k, c, h: (1 - sigmoid(k + 0.1 * h)) * h + sigmoid(k) * c,
    "weight reads h": lambda k, c, h: torch.lerp(h, c, sigmoid(k * h)),
    "addcmul of h and h": lambda k, c, h: torch.addcmul(sigmoid(k) * c, h, h, value=0.1),
    "divided by h": lambda k, c, h: torch.addcdiv(c, sigmoid(k), 2 + h.abs()),
    "mask reads h": lambda k, c, h: h.masked_fill(h > 1, 0.0) + sigmoid(k) * c,
}


def way(update: Update) -> type[Cell]:
    class Way(Cell):
        def __init__(self, input_size: int, hidden_size: int) -> None:
            super().__init__(input_size, hidden_size)
            self.gate, self.candidate = nn.Linear(input_size, hidden_size), nn.Linear(input_size, hidden_size)

        def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            h = update(self.gate(x), self.candidate(x), h)
            return h, h

    return Way


@pytest.mark.parametrize("name", [*LINEAR_WAYS, *OTHER_WAYS])
def test_ways_to_write_a_minimal_gated_step(name: str) -> None:
    """Each that is linear is found, none that is not, and all have kernels."""
    linear = name in LINEAR_WAYS
    cell = way((LINEAR_WAYS | OTHER_WAYS)[name])
    assert kernels(cell).step_class is (StepClass.LINEAR if linear else StepClass.ELEMENTWISE)
    Pair(cell, "scan" if linear else "engine", hidden_size=6).assert_same(torch.randn(2, 9, 5), None)


def test_coefficients_are_those_of_the_expression() -> None:
    build = Builder()
    h, x, y = (
        build.leaf(kind, 0, 4, offset=at) for kind, at in ((Kind.STATE, 0), (Kind.HOISTED, 0), (Kind.HOISTED, 4))
    )
    expr = build.op("sub", build.op("div", build.op("add", h, x), y), build.op("mul", x, h))
    found = affine(build, expr, h)
    assert found is not None
    one, zero = build.number(1.0, 4), build.number(0.0, 4)
    assert found.slope is build.op("sub", build.op("div", one, y), build.op("mul", x, one))
    assert found.rest is build.op("sub", build.op("div", x, y), build.op("mul", x, zero))
    assert affine(build, build.op("mul", h, h), h) is None
    assert affine(build, build.op("sigmoid", h), h) is None
    assert affine(build, build.op("div", x, h), h) is None


class Pair:
    """A network by some backend, and the same weights by the reference."""

    def __init__(self, choice: CellChoice, backend: Any, *, hidden_size: int = 70, bidirectional: bool = False) -> None:
        torch.manual_seed(7)
        self.tried = RNN(choice, 5, hidden_size, bidirectional=bidirectional, backend=backend)
        self.reference = RNN(choice, 5, hidden_size, bidirectional=bidirectional, backend="reference")
        self.reference.load_state_dict(self.tried.state_dict())

    def assert_same(self, x: Tensor, lengths: Tensor | None, *, tolerance: float = 1e-5) -> None:
        state = map_state(torch.randn_like, self.reference.initial_state(x.size(0), x))
        found, expected = (measure(rnn, x, lengths, state) for rnn in (self.tried, self.reference))
        assert_close(found, expected, rtol=tolerance, atol=tolerance)


def measure(rnn: RNN, x: Tensor, lengths: Tensor | None, state: State, **more: Tensor) -> dict[str, Tensor]:
    """Outputs, last states and the gradients of everything, by name."""
    x = x.clone().requires_grad_()
    state = map_state(lambda part: part.clone().requires_grad_(), state)
    rnn.zero_grad()
    output, final = rnn(x, lengths, state, **more)
    parts = [output, *leaves_of(final)]
    sum((part * torch.linspace(-1, 1, part.numel()).to(part).view_as(part)).sum() for part in parts).backward()
    named = {f"result {number}": part.detach() for number, part in enumerate(parts)}
    named |= {f"start {number}": part.grad for number, part in enumerate(leaves_of(state))}
    return named | {"x": x.grad} | {name: parameter.grad.clone() for name, parameter in rnn.named_parameters()}


LENGTHS = [None, torch.tensor([9, 2, 0, 5])]


@pytest.mark.parametrize("lengths", LENGTHS, ids=["equal", "lengths"])
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("backend", ["loop", "scan"])
@pytest.mark.parametrize("choice", [*LINEAR, Chain, Halves], ids=str)
def test_a_linear_cell_equals_the_reference(
    choice: CellChoice, backend: str, bidirectional: bool, lengths: Tensor | None
) -> None:
    Pair(choice, backend, bidirectional=bidirectional).assert_same(torch.randn(4, 9, 5), lengths)


@pytest.mark.parametrize("lengths", LENGTHS, ids=["equal", "lengths"])
@pytest.mark.parametrize("choice", ELEMENTWISE, ids=str)
def test_an_elementwise_cell_equals_the_reference(choice: CellChoice, lengths: Tensor | None) -> None:
    pair = Pair(choice, "loop", bidirectional=True)
    pair.assert_same(torch.randn(4, 9, 5), lengths)
    assert "no matrix product reads its state" in pair.tried.explain()


@pytest.mark.parametrize("choice", LINEAR, ids=str)
def test_a_scan_equals_the_loop_over_many_steps(choice: CellChoice) -> None:
    torch.manual_seed(3)
    loop, scan = (RNN(choice, 3, 4, backend=backend) for backend in ("loop", "scan"))
    scan.load_state_dict(loop.state_dict())
    with torch.no_grad():
        x = torch.randn(1, 16_384, 3)
        assert_close(scan(x), loop(x), rtol=1e-5, atol=1e-5)
    assert "ran as a scan in" in scan.explain()
    assert "ran as a loop" in loop.explain()


def test_gradients_of_a_scan_equal_those_of_the_loop_over_many_steps() -> None:
    torch.manual_seed(3)
    loop, scan = (RNN("hgrn", 3, 4, backend=backend) for backend in ("loop", "scan"))
    scan.load_state_dict(loop.state_dict())
    x = torch.randn(1, 16_384, 3)
    state = loop.initial_state(1, x)
    found, expected = (measure(rnn, x, None, state) for rnn in (scan, loop))
    for name in ("x", "start 0", "result 0", "result 1"):  # the others are sums of 16,384 terms, which round
        assert_close(found[name], expected[name], rtol=1e-5, atol=1e-5)


class Given(Cell):
    """h' = a ⊙ h + b of an input that is a and b."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x.chunk(2, dim=-1)
        h = a * h + b
        return h, h


@pytest.mark.parametrize("backend", ["loop", "scan"])
def test_many_steps_with_gates_near_one_equal_float64(backend: Any) -> None:
    """Of which a state remembers thousands of steps; its gradient too, which is a recurrence from the end."""
    torch.manual_seed(3)
    time = 16_384
    a, b = torch.rand(time, 4) * torch.tensor([0.5, 0.01, 1e-3, 1e-4]), torch.randn(time, 4)
    a = 1 - a
    x = torch.cat((a, b), dim=-1)[None].requires_grad_()
    output, _ = RNN(Given, 8, 4, backend=backend)(x)
    weight = torch.randn(time, 4)
    (output[0] * weight).sum().backward()
    h, after = torch.zeros(4, dtype=torch.float64), torch.empty(time, 4, dtype=torch.float64)
    for step, (slope, added) in enumerate(zip(a.double(), b.double(), strict=True)):
        h = after[step] = slope * h + added
    g, of_b = torch.zeros(4, dtype=torch.float64), torch.empty(time, 4, dtype=torch.float64)
    for step in reversed(range(time)):
        g = of_b[step] = weight[step].double() + g * (a[step + 1].double() if step + 1 < time else 0)
    before = torch.cat((torch.zeros(1, 4), after[:-1]))
    assert x.grad is not None
    of_a, expected_of_a = x.grad[0, :, :4], of_b * before
    for found, expected in ((output[0], after), (x.grad[0, :, 4:], of_b), (of_a, expected_of_a)):
        error = (found.double() - expected).abs().amax(0) / expected.abs().amax(0)
        assert (error < 1e-5).all(), error


def test_gates_that_close_and_open_stay_exact_in_a_scan() -> None:
    """A gate of zero forgets everything before it, and one of one keeps everything: no quotient may meet them."""

    class Gated(Cell):
        def __init__(self, input_size: int, hidden_size: int) -> None:
            super().__init__(input_size, hidden_size)
            self.from_input = nn.Linear(input_size, hidden_size, bias=False)

        def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
            drive = self.from_input(x)
            h = torch.where(drive > 1, torch.zeros_like(drive), torch.ones_like(drive)) * h + drive
            return h, h

    pair = Pair(Gated, "scan", hidden_size=4)
    pair.assert_same(torch.randn(2, 600, 5), None, tolerance=1e-4)


class Growing(Cell):
    """h' = 2 h + x"""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = (2 + 0 * x) * h + x
        return h, h


def grow(backend: Backend) -> list[Tensor]:
    """The output from a state of zero that meets an input at the last steps alone, and the gradient of its first."""
    x = torch.zeros(1, 600, 4)
    x[:, -3:] = 1
    x.requires_grad_()
    output, _ = RNN(Growing, 4, 4, backend=backend)(x)
    (gradient,) = torch.autograd.grad(output[:, :5].sum(), x)
    return [output, gradient]


def test_a_state_of_zero_stays_zero_where_the_product_of_slopes_overflows() -> None:
    """2 to the power of 300 is no number of float32."""
    wanted = grow("reference")
    assert all(part.isfinite().all() for part in wanted)
    for backend in ("loop", "scan"):
        assert_close(grow(backend), wanted)


def test_the_scan_is_taken_where_rows_are_long_and_few() -> None:
    machine = Machine(at_once=32, for_each=4, scan_cost=1.7)
    assert choose_chunks("auto", 4, 65_536, machine) == Chunks(32, 2_048)
    assert choose_chunks("auto", 4, 100, machine).number == 1
    assert choose_chunks("auto", 64, 65_536, machine) == Chunks(1, 65_536)
    assert choose_chunks("loop", 1, 65_536, machine).number == 1
    assert choose_chunks("scan", 1_000, 5, machine).number == 2
    assert choose_chunks("scan", 1, 1, machine).number == 1


def test_a_cell_that_is_not_linear_cannot_be_forced_to_scan() -> None:
    for choice in ("sru", "gru"):
        with pytest.raises(ConfigError, match='"scan" cannot run'):
            RNN(choice, 3, 4, backend="scan")(torch.randn(1, 2, 3))


def test_a_compiled_scan_equals_the_loop() -> None:
    rnn = RNN("min_gru", 3, 4, backend="scan")
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 300, 3, requires_grad=True)
    expected = torch.autograd.grad(rnn(x)[0].sum(), [x, *rnn.parameters()])
    found = torch.autograd.grad(compiled(x)[0].sum(), [x, *rnn.parameters()])
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
