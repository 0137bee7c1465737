"""Networks of every build and batches of every shape: the engine gives what the reference gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.contracts.conftest import CASES
from tests.sampling import sampled
from torch import Tensor
from torch.testing import assert_close

from weft.errors import DataError
from weft.nn import RNN, Cell
from weft.nn.recurrent.lengths import check_lengths
from weft.nn.state import leaves_of

BUILDS: dict[str, dict[str, Any]] = {
    "layers": {"layers": 3},
    "sizes": {"hidden_size": [6, 4, 7]},
    "learned": {"layers": 2, "initial": "learned"},
    "residual": {"hidden_size": [5, 5, 6], "skip": "residual"},
    "dense": {"layers": 3, "skip": "dense"},
    "concat": {"bidirectional": True, "merge": "concat"},
    "sum": {"bidirectional": True, "merge": "sum", "layers": 2},
    "mean": {"bidirectional": True, "merge": "mean", "initial": "learned"},
    "project": {"bidirectional": True, "merge": "project", "layers": 2, "skip": "dense"},
}
LENGTHS = {
    "full": [5, 5, 5, 5],
    "mixed": [5, 2, 0, 4],
    "sorted": [4, 3, 2, 1],
    "short": [1, 1, 0, 1],
    "empty": [0, 0, 0, 0],
}


@pytest.mark.covers("R8", "R11")
@sampled(
    2,
    name=["lstm", "gru", "projected_lstm", "Readout"],
    build=list(BUILDS),
    lengths={"full": None, "lengths": [5, 2, 0, 4]},
)
def test_every_build(name: str, build: str, lengths: list[int] | None, own: Any, paired: Any) -> None:
    pair, x = paired(own.get(name, name), **BUILDS[build]), torch.randn(4, 5, 5)
    given = None if lengths is None else torch.tensor(lengths)
    pair.assert_same(x, given)
    pair.assert_same(x, given, pair.random_state(x))


@pytest.mark.parametrize("lengths", LENGTHS.values(), ids=LENGTHS)
@pytest.mark.parametrize("name", ["peephole_lstm", "gru", "Chained", "NormalisedState"])
def test_every_kind_of_lengths(name: str, lengths: list[int], own: Any, paired: Any) -> None:
    pair, x = paired(own.get(name, name), bidirectional=True), torch.randn(4, 5, 5)
    pair.assert_same(x, torch.tensor(lengths), pair.random_state(x))


@pytest.mark.parametrize("ending", [0, 1, 3])
@pytest.mark.parametrize("row", [0, 7, 24])
def test_hardly_any_padding(row: int, ending: int, paired: Any) -> None:
    """So little that leaving it out would not pay: every row has room for all steps then, also one that has none."""
    lengths = torch.full((25,), 4)
    lengths[row] = ending
    pair, x = paired("gru", bidirectional=True), torch.randn(25, 4, 5)
    pair.assert_same(x, lengths, pair.random_state(x))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int16, torch.uint8], ids=str)
def test_lengths_of_any_integer_type(dtype: torch.dtype, paired: Any) -> None:
    pair, x, lengths = paired("lstm"), torch.randn(4, 5, 5), torch.tensor([5, 2, 0, 4])
    checked = check_lengths(x, lengths.to(dtype))
    assert checked is not None
    assert checked.dtype == torch.int64, "kernels read 64 bits for each length"
    assert_close(pair.engine(x, lengths.to(dtype))[0], pair.reference(x, lengths)[0], rtol=1e-5, atol=1e-5)


def test_lengths_that_are_no_whole_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="lengths"):
        check_lengths(torch.randn(2, 5, 5), torch.tensor([2.5, 4.0]))


@pytest.mark.parametrize("shape", [(3, 6), (4, 7)], ids=["rows", "columns"])
@pytest.mark.parametrize("backend", ["engine", "reference"])
def test_a_state_that_does_not_fit_is_refused(backend: str, shape: tuple[int, int]) -> None:
    """A kernel would read and write past the ends of what it is given."""
    rnn = RNN("gru", 5, 6, backend=backend)
    with pytest.raises(DataError, match="state"):
        rnn(torch.randn(4, 5, 5), None, (torch.zeros(shape),))


@pytest.mark.parametrize("batch", [1, 2, 9, 64, 65, 130])
def test_batches_of_every_size(batch: int, paired: Any) -> None:
    pair, x = paired("gru", 2, 3), torch.randn(batch, 4, 2)
    lengths = torch.arange(batch) % 5
    pair.assert_same(x, lengths, pair.random_state(x), within=3e-5)


@pytest.mark.parametrize("hidden", [1, 2, 3, 16, 17, 31, 32, 33, 65])
def test_states_of_every_size(hidden: int, paired: Any) -> None:
    pair, x = paired("lstm", 7, hidden, bidirectional=True), torch.randn(3, 4, 7)
    pair.assert_same(x, torch.tensor([4, 1, 3]), pair.random_state(x), within=2e-5)


@pytest.mark.parametrize("sizes", [(1, 1), (1, 5), (5, 1)], ids=str)
@pytest.mark.parametrize("name", ["gru", "Traces"])
def test_sizes_of_one(name: str, sizes: tuple[int, int], own: Any, paired: Any) -> None:
    pair, x = paired(own.get(name, name), *sizes), torch.randn(3, 4, sizes[0])
    pair.assert_same(x, torch.tensor([4, 1, 3]), pair.random_state(x))


@pytest.mark.parametrize("time", [1, 2, 40])
def test_rows_of_every_length(time: int, paired: Any) -> None:
    pair, x = paired("coupled_lstm", bidirectional=True), torch.randn(2, time, 5)
    pair.assert_same(x, torch.tensor([time, time // 2]), pair.random_state(x), within=1e-4 if time > 2 else 1e-5)


@pytest.mark.parametrize("shape", [(0, 4), (3, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("bidirectional", [False, True])
def test_nothing_to_do(shape: tuple[int, int], bidirectional: bool, paired: Any) -> None:
    rnn = paired("lstm", layers=2, bidirectional=bidirectional, initial="learned").engine
    x = torch.randn(*shape, 5, requires_grad=True)
    output, final = rnn(x, torch.zeros(shape[0], dtype=torch.int64))
    assert output.shape == (*shape, rnn.output_size)
    assert_close(leaves_of(final), leaves_of(rnn.initial_state(shape[0], x)))
    (output.sum() + sum(part.sum() for part in leaves_of(final))).backward()
    assert rnn.layers[0].initial[0].parts[0].grad.eq(shape[0]).all()


VIEWS = {
    "transposed": lambda x: x.transpose(0, 1).contiguous().transpose(0, 1),
    "sliced": lambda x: x.repeat_interleave(2, 1)[:, ::2],
    "narrowed": lambda x: torch.cat((x, x), dim=-1)[..., : x.size(-1)],
    "flipped": lambda x: x.flip(-1).permute(2, 0, 1).contiguous().permute(1, 2, 0).flip(-1),
}


@pytest.mark.parametrize("lengths", [None, [5, 2, 0]], ids=["full", "lengths"])
@pytest.mark.parametrize("view", VIEWS)
def test_input_in_any_layout(view: str, lengths: list[int] | None, paired: Any) -> None:
    rnn, x = paired("mut1", bidirectional=True).engine, torch.randn(3, 5, 5)
    given = None if lengths is None else torch.tensor(lengths)
    strange = VIEWS[view](x)
    assert torch.equal(strange, x)
    assert torch.equal(rnn(strange, given)[0], rnn(x, given)[0])


def test_a_repeated_row_and_a_repeated_state(paired: Any) -> None:
    """Expanded tensors have one row in memory; nothing may be written there, and their gradients add up."""
    pair = paired("lstm")
    found = []
    for rnn in (pair.engine, pair.reference):
        x, h = torch.ones(1, 5, 5, requires_grad=True), torch.ones(1, 6, requires_grad=True)
        state = rnn.initial_state(3, x)[0]._replace(h=h.expand(3, 6))
        output, final = rnn(x.expand(3, 5, 5), None, (state,))
        rnn.zero_grad()
        pair.loss_of(output, final).backward()
        found.append([output, x.grad, h.grad, *(parameter.grad for parameter in rnn.parameters())])
    assert_close(*found, rtol=1e-5, atol=1e-5)


@sampled(1, case=CASES, lengths={"full": None, "lengths": [5, 2, 0]}, indirect=["case"])
def test_without_gradients(case: Any, lengths: list[int] | None, paired: Any) -> None:
    rnn, x = paired(case.choice, layers=2, bidirectional=True).engine, torch.randn(3, 5, 5)
    given = None if lengths is None else torch.tensor(lengths)
    expected, final = rnn(x, given)
    assert expected.requires_grad
    for quiet in (torch.no_grad(), torch.inference_mode()):
        with quiet:
            output, last = rnn(x, given)
        assert not output.requires_grad
        assert torch.equal(output, expected)
        assert all(torch.equal(a, b) for a, b in zip(leaves_of(last), leaves_of(final), strict=True))


def test_frozen_parameters_and_inputs(case: Any, paired: Any) -> None:
    """Whatever wants a gradient, alone or with others, gets the one it gets with all."""
    pair, x, lengths = paired(case.choice), torch.randn(3, 5, 5), torch.tensor([5, 2, 4])
    rnn = pair.engine
    expected = pair.measure(rnn, x, lengths)
    names = [name for name, _ in rnn.named_parameters()]
    for wanted in ({"x"}, {names[0]}, {names[-1]}, {"x", names[-1]}, set(names)):
        for name, parameter in rnn.named_parameters():
            parameter.requires_grad_(name in wanted).grad = None
        inputs = x.clone().requires_grad_("x" in wanted)
        pair.loss_of(*rnn(inputs, lengths)).backward()
        found = {"x": inputs.grad} | {name: parameter.grad for name, parameter in rnn.named_parameters()}
        assert {name for name, grad in found.items() if grad is not None} == wanted
        assert_close({name: found[name] for name in wanted}, {name: expected[name] for name in wanted})


class Fading(Cell):
    """Nothing to learn, so nothing that tells the type of its numbers."""

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = 0.5 * h + torch.tanh(x)
        return h, h


class Measured(Cell):
    """A constant table instead of parameters."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.register_buffer("decay", torch.linspace(0.1, 0.9, hidden_size))

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = self.decay * h + torch.tanh(x)
        return h, h


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("cell", [Fading, Measured])
def test_cells_without_parameters(cell: type[Cell], dtype: torch.dtype, paired: Any) -> None:
    pair, x = paired(cell, 6, 6), torch.randn(3, 5, 6, dtype=dtype)
    pair.engine.to(dtype)
    pair.reference.to(dtype)
    pair.assert_same(x, torch.tensor([5, 2, 4]), pair.random_state(x))
    assert pair.engine(x)[0].dtype == dtype
