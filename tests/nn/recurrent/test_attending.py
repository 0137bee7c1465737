"""Cells that attend: the compiled loop and the plan in plain torch against the step in a Python loop."""

from __future__ import annotations

import copy
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import DataError
from weft.nn import RNN, AttendingCell, Source, leaves_of, map_state

BATCH, TIME, STEPS = 4, 5, 6
INPUT, HIDDEN, KEYS, VALUES = 3, 6, 7, 5
SOURCE_LENGTHS = torch.tensor([6, 3, 0, 1])
LENGTHS = torch.tensor([5, 2, 4, 0])


class ByDot(AttendingCell):
    """u = attend(Q h);  h' = tanh(W [x; u; h])"""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, key_size=KEYS, value_size=VALUES)
        self.query = nn.Linear(hidden_size, KEYS)
        self.map = nn.Linear(input_size + VALUES + hidden_size, hidden_size)

    def step(self, x: Tensor, h: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        u = source.attend(self.query(h), scale=0.5)
        h = torch.tanh(self.map(torch.cat((x, u, h), dim=-1)))
        return h, h


class OfState(AttendingCell):
    """The query is the state as it is; the best value alone. The output takes a product, after the loop."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, key_size=hidden_size, value_size=VALUES)
        self.map, self.read = nn.Linear(input_size + VALUES, hidden_size), nn.Linear(VALUES + hidden_size, 4)
        self.output_size = 4

    def step(self, x: Tensor, h: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        u = source.attend(h, hard=True)
        h = 0.5 * h + torch.sigmoid(self.map(torch.cat((u, x), dim=-1)))
        return torch.tanh(self.read(torch.cat((u, h), dim=-1))), h


class TwoState(NamedTuple):
    h: Tensor
    c: Tensor


class Additive(AttendingCell):
    """Two additive scores on one source, the second of what the first found; the first query is a state as it is."""

    state_type = TwoState

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, key_size=hidden_size, value_size=VALUES)
        self.over, self.again = (nn.Parameter(torch.linspace(-1, end, hidden_size)) for end in (1, 2))
        self.turn = nn.Linear(VALUES, hidden_size)
        self.from_input = nn.Linear(input_size, 3 * hidden_size)
        self.from_context = nn.Linear(2 * VALUES, 3 * hidden_size, bias=False)

    def step(self, x: Tensor, state: TwoState, source: Source) -> tuple[Tensor, TwoState]:
        u = source.attend(state.h, over=self.over)
        v = source.attend(self.turn(u) + state.c, over=self.again, scale=0.7)
        f, g, o = (self.from_input(x) + self.from_context(torch.cat((u, v), dim=-1))).chunk(3, dim=-1)
        c = torch.sigmoid(f) * state.c + torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, TwoState(h, c)


class Adds(AttendingCell):
    """What it finds is added to the map of the input as it is; what the query of the input finds is only an output."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size, key_size=KEYS, value_size=hidden_size)
        self.query, self.of_input = nn.Linear(hidden_size, KEYS, bias=False), nn.Linear(input_size, KEYS)
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        h = torch.tanh(self.from_input(x) + source.attend(self.query(h)))
        return h + source.attend(self.of_input(x)), h


class Shows(ByDot):
    """The output reads a gate, one of two results of a split in the loop, and a product of its own."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.gates, self.read = nn.Linear(hidden_size, 2 * hidden_size), nn.Linear(hidden_size, hidden_size)

    def step(self, x: Tensor, h: Tensor, source: Source) -> tuple[Tensor, Tensor]:
        f, o = torch.sigmoid(self.gates(h)).chunk(2, dim=-1)
        h = f * super().step(x, h, source)[0]
        return o * self.read(h), h


CELLS = [ByDot, Shows, OfState, Additive, Adds]


def build(cell: type[AttendingCell], backend: str, **settings: Any) -> RNN:
    torch.manual_seed(1)
    rnn = RNN(cell, INPUT, HIDDEN, backend=backend, **settings)  # type: ignore[arg-type]
    with torch.no_grad():
        for parameter in rnn.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return rnn


def source_for(rnn: RNN, *, steps: int = STEPS) -> Source:
    torch.manual_seed(2)
    cell = rnn.layers[0].cells[0]
    keys, values = (torch.randn(BATCH, steps, size) for size in (cell.key_size, cell.value_size))
    return Source(keys, values, SOURCE_LENGTHS.clamp(max=steps))


def measure(rnn: RNN, lengths: Tensor | None = None, **more: Any) -> dict[str, Tensor]:
    """Outputs, last states and the gradients of a loss over them, by name."""
    dtype = next(rnn.parameters()).dtype
    torch.manual_seed(3)
    x = torch.randn(BATCH, TIME, INPUT).to(dtype).requires_grad_()
    state = map_state(lambda zero: torch.randn_like(zero).requires_grad_(), rnn.initial_state(BATCH, x))
    made = source_for(rnn)
    source = Source(made.keys.to(dtype).requires_grad_(), made.values.to(dtype).requires_grad_(), made.lengths)
    output, final = rnn(x, lengths, state, source=source, **more)
    parts = [output, *leaves_of(final)]
    rnn.zero_grad()
    sum((part * torch.arange(part.numel()).to(part).view_as(part).cos()).sum() for part in parts).backward()
    named = {f"result {number}": part.detach() for number, part in enumerate(parts)}
    named |= {f"start {number}": part.grad for number, part in enumerate(leaves_of(state))}
    named |= {"x": x.grad, "keys": source.keys.grad, "values": source.values.grad}
    return named | {name: p.grad.clone() for name, p in rnn.named_parameters()}


@pytest.mark.covers("R15")
@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["equal", "lengths"])
@pytest.mark.parametrize("settings", [{}, {"bidirectional": True, "merge": "sum"}], ids=["one", "both"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.usefixtures("a_compiler")
def test_the_kernels_equal_the_loop(
    cell: type[AttendingCell], settings: dict[str, Any], lengths: Tensor | None, threads: int
) -> None:
    rnn = build(cell, "engine", **settings)
    assert "in C" in rnn.explain()
    found, expected = measure(rnn, lengths), measure(build(cell, "reference", **settings), lengths)
    assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["equal", "lengths"])
@pytest.mark.parametrize("cell", CELLS)
def test_the_plan_in_plain_torch_equals_the_loop(cell: type[AttendingCell], lengths: Tensor | None) -> None:
    rnn, reference = build(cell, "engine").double(), build(cell, "reference").double()
    assert "plain torch" in rnn.explain()
    assert_close(measure(rnn, lengths), measure(reference, lengths), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("cell", CELLS)
def test_steps_equal_the_whole_pass(cell: type[AttendingCell]) -> None:
    rnn = build(cell, "auto")
    source, x = source_for(rnn), torch.randn(BATCH, TIME, INPUT)
    with torch.no_grad():
        whole, final = rnn(x, source=source)
        state, outputs = rnn.initial_state(BATCH, x), []
        for now in x.unbind(1):
            output, state = rnn.step(now, state, source=source)
            outputs.append(output)
    assert_close(torch.stack(outputs, dim=1), whole, rtol=1e-4, atol=1e-5)
    assert_close(leaves_of(state), leaves_of(final), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_resets_equal_splitting_the_row(backend: str) -> None:
    rnn = build(ByDot, backend)
    source, x = source_for(rnn), torch.randn(BATCH, TIME, INPUT)
    resets = torch.zeros(BATCH, TIME, dtype=torch.bool)
    resets[:, 3] = True
    whole, final = rnn(x, resets=resets, source=source)
    first, (second, after) = rnn(x[:, :3], source=source)[0], rnn(x[:, 3:], source=source)
    assert_close(whole, torch.cat((first, second), dim=1))
    assert_close(leaves_of(final), leaves_of(after))


def weights_of(cell: AttendingCell, x: Tensor, state: Any, source: Source) -> list[Tensor]:
    """The weights of each attention of one step, from their equations."""
    found: list[Tensor] = []

    class Listening(Source):
        def attend(self, query: Tensor, *, over: Any = None, scale: float = 1.0, hard: bool = False) -> Tensor:
            scores = (
                (self.keys * query[:, None]).sum(-1) if over is None else torch.tanh(self.keys + query[:, None]) @ over
            )
            hidden = torch.arange(self.keys.size(1)) >= self.lengths[:, None]
            found.append((scores * scale).masked_fill(hidden, -1e30).softmax(-1).masked_fill(hidden, 0.0))
            return super().attend(query, over=over, scale=scale, hard=hard)

    cell.step(x, state, Listening(*source))
    return found


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.usefixtures("a_compiler")
def test_weights_sum_to_one_over_the_source_alone(cell: type[AttendingCell]) -> None:
    rnn = build(cell, "engine")
    source, x = source_for(rnn), torch.randn(BATCH, TIME, INPUT)
    layer, (state,) = rnn.layers[0], rnn.initial_state(BATCH, x)
    (found,) = layer.attention(x, LENGTHS, state, source)
    expected: list[list[Tensor]] = []
    for now in x.unbind(1):
        expected.append(weights_of(layer.cells[0], now, state, source))
        _, state = layer.step(now, state, source)
    real = torch.arange(TIME) < LENGTHS[:, None]
    for part, steps in zip(found, zip(*expected, strict=True), strict=True):
        assert_close(part, torch.stack(steps, dim=1) * real[..., None], rtol=1e-4, atol=1e-5)
        assert_close(part.sum(-1), (real & (SOURCE_LENGTHS > 0)[:, None]).float())


def test_explain_names_the_attention() -> None:
    explained = build(Additive, "engine").explain()
    assert "attention to the source by additive scores, queries of 6, values of 5" in explained
    assert "attention to the source by products, queries of 7, values of 5" in build(ByDot, "engine").explain()


def test_columns_of_the_input_leave_the_loop() -> None:
    """The map of [x; u; h] is a product of x before the loop, and one of [u; h] in it."""
    explained = build(ByDot, "engine").explain()
    assert f"before the loop: {HIDDEN} columns from the input" in explained
    assert f"product {VALUES + HIDDEN} x {HIDDEN}" in explained


def test_what_a_step_computes_of_its_source_alone_is_refused() -> None:
    class Maps(ByDot):
        def step(self, x: Tensor, h: Tensor, source: Source) -> tuple[Tensor, Tensor]:
            return super().step(x, h, source._replace(keys=torch.tanh(source.keys)))

    rnn = build(Maps, "auto")
    assert "it computes with its source in every step: compute that before, once" in rnn.explain()
    assert_close(measure(rnn), measure(build(Maps, "reference")))


def test_a_source_must_fit() -> None:
    rnn, x = build(ByDot, "auto"), torch.randn(BATCH, TIME, INPUT)
    source = source_for(rnn)
    with pytest.raises(DataError, match="ByDot attends, but there is no source"):
        rnn(x)
    with pytest.raises(DataError, match="Elman attends to no source"):
        RNN("elman", INPUT, HIDDEN)(x, source=source)
    with pytest.raises(DataError, match=r"keys are \(4, 6, 7\), values \(4, 6, 5\), lengths \(3,\)"):
        rnn(x, source=source._replace(lengths=SOURCE_LENGTHS[1:]))
    with pytest.raises(DataError, match="do not fit a source of 6 positions"):
        rnn(x, source=source._replace(lengths=SOURCE_LENGTHS + 1))


@pytest.mark.usefixtures("a_compiler")
def test_a_copy_and_an_empty_batch_run() -> None:
    rnn = build(ByDot, "engine")
    source, x = source_for(rnn), torch.randn(BATCH, TIME, INPUT)
    assert_close(copy.deepcopy(rnn)(x, source=source)[0], rnn(x, source=source)[0])
    assert rnn(x[:, :0], source=source)[0].shape == (BATCH, 0, HIDDEN)
    nothing = source_for(rnn, steps=0)
    assert_close(rnn(x, source=nothing)[0], build(ByDot, "reference")(x, source=nothing)[0])


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.usefixtures("a_compiler")
def test_torch_compile_keeps_the_loop(cell: type[AttendingCell]) -> None:
    rnn = build(cell, "engine")
    expected = measure(rnn)
    compiled = torch.compile(rnn.forward, fullgraph=True, backend="aot_eager")
    rnn.forward = compiled  # type: ignore[method-assign]
    assert_close(measure(rnn), expected, rtol=1e-4, atol=1e-5)
