"""What must hold for every cell, run by `RNN`."""

from __future__ import annotations

from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import ConfigError, DataError
from weft.nn import CELLS, RNN, Cell, CellChoice, State, detach, map_state, select_rows
from weft.nn.recurrent import LSTM, Elman
from weft.nn.recurrent.layer import Backend, Merge

LENGTHS = torch.tensor([4, 2, 0, 3])


def tensors(state: State) -> list[Tensor]:
    found: list[Tensor] = []
    map_state(lambda tensor: found.append(tensor) or tensor, state)
    return found


def total(output: Tensor, state: State) -> Tensor:
    """A loss that looks at every number of an output and a state, each with its own weight."""
    parts = [output, *tensors(state)]
    return sum((part * torch.arange(1, part.numel() + 1).view_as(part).sin()).sum() for part in parts)


@pytest.mark.covers("R2b")
@pytest.mark.parametrize("bidirectional", [False, True])
def test_a_random_first_state_is_drawn_for_each_row_in_training(cell: CellChoice, bidirectional: bool) -> None:
    """h_0 ~ N(0, σ²), other numbers for every row and every call; in evaluation it is zero."""
    rnn = RNN(cell, 5, 6, layers=2, bidirectional=bidirectional, initial="random", initial_std=0.5)
    x = torch.randn(2, 4, 5)
    first, second = (tensors(rnn.initial_state(4000, x)) for _ in range(2))
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        assert not torch.equal(one, other)
        if cell == "s_lstm" and number % 4 == 2:  # n, which is at least |c|: see test_first_state.py
            continue
        assert abs(one.mean().item()) < 0.02
        assert abs(one.std().item() - 0.5) < 0.02
        assert len(one.unique(dim=0)) == 4000
    state = rnn.initial_state(2, x)
    torch.manual_seed(5)
    drawn = rnn.initial_state(2, x)
    torch.manual_seed(5)
    assert_close(rnn(x), rnn(x, state=drawn))
    chance = torch.get_rng_state()
    rnn(x, state=state)
    assert torch.equal(torch.get_rng_state(), chance), "a given state draws nothing"
    plain = RNN(cell, 5, 6, layers=2, bidirectional=bidirectional)
    plain.load_state_dict(rnn.state_dict())
    assert_close(rnn.eval()(x), plain(x))


@pytest.mark.covers("R10")
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_changes_no_row(cell: CellChoice, bidirectional: bool) -> None:
    rnn = RNN(cell, 5, 6, layers=2, bidirectional=bidirectional)
    x = torch.randn(4, 4, 5)
    output, state = rnn(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone, final = rnn(x[row : row + 1, :length])
        assert_close(output[row : row + 1, :length], alone)
        assert not output[row, length:].any()
        assert_close(tensors(select_rows(state, torch.tensor([row]))), tensors(final))


@pytest.mark.covers("R10")
@pytest.mark.parametrize("bidirectional", [False, True])
def test_padding_gets_and_gives_no_gradient(cell: CellChoice, bidirectional: bool) -> None:
    rnn = RNN(cell, 5, 6, layers=2, bidirectional=bidirectional)
    x = torch.randn(4, 4, 5, requires_grad=True)
    garbage = x.detach().clone()
    garbage[1, 2:], garbage[2], garbage[3, 3:] = torch.inf, torch.nan, 1e30
    gradients = []
    for inputs in (x, garbage.requires_grad_()):
        rnn.zero_grad()
        total(*rnn(inputs, LENGTHS)).backward()
        assert inputs.grad is not None
        assert not inputs.grad[1, 2:].any()
        assert not inputs.grad[2].any()
        assert inputs.grad[1, :2].all()
        gradients.append([inputs.grad[0], *(parameter.grad.clone() for parameter in rnn.parameters())])
    assert_close(*gradients, rtol=0, atol=0)


def test_all_steps_at_once_equal_single_steps(cell: CellChoice) -> None:
    rnn = RNN(cell, 5, [6, 5, 5], skip="residual", dropout=0.5).eval()
    x = torch.randn(3, 4, 5)
    output, final = rnn(x)
    state = rnn.initial_state(3, x)
    for t in range(4):
        step, state = rnn.step(x[:, t], state)
        assert_close(step, output[:, t])
    assert_close(tensors(state), tensors(final))


def test_rows_permute(cell: CellChoice) -> None:
    rnn = RNN(cell, 5, 6, bidirectional=True)
    x, rows = torch.randn(4, 4, 5), torch.tensor([2, 0, 3, 1])
    output, state = rnn(x, LENGTHS)
    moved, moved_state = rnn(x[rows], LENGTHS[rows])
    assert_close(moved, output[rows])
    assert_close(tensors(moved_state), tensors(select_rows(state, rows)))


@pytest.mark.parametrize("merge", ["concat", "sum", "mean", "project"])
def test_every_parameter_gets_a_gradient(cell: CellChoice, merge: str) -> None:
    rnn = RNN(cell, 5, 6, layers=2, bidirectional=True, merge=merge, initial="learned")
    with torch.no_grad():  # a stabiliser scales the rest of a first state, so of zeros it has no gradient
        for name, parameter in rnn.named_parameters():
            if ".initial." in name:
                parameter.uniform_(0.1, 1.0)
    output, _ = rnn(torch.randn(4, 4, 5), LENGTHS)
    output.square().sum().backward()
    for name, parameter in rnn.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@pytest.mark.covers("R11")
def test_carried_state_over_two_halves_equals_the_whole(cell: CellChoice) -> None:
    rnn = RNN(cell, 5, 6, layers=2)
    x = torch.randn(3, 6, 5)
    whole, final = rnn(x)
    first, state = rnn(x[:, :2])
    second, end = rnn(x[:, 2:], state=state)
    assert_close(torch.cat((first, second), 1), whole)
    assert_close(tensors(end), tensors(final))
    cut, _ = rnn(x[:, 2:], state=detach(state))
    assert_close(cut, second)


@pytest.mark.covers("R12")
def test_truncation_stops_the_gradient_at_the_cut() -> None:
    rnn = RNN("lstm", 5, 6)
    x = torch.randn(2, 4, 5, requires_grad=True)
    _, state = rnn(x[:, :2])
    output, _ = rnn(x[:, 2:], state=detach(state))
    output.sum().backward()
    assert x.grad is not None
    assert not x.grad[:, :2].any()
    assert x.grad[:, 2:].any()


@pytest.mark.covers("R10")
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6), bidirectional=st.booleans())
@settings(max_examples=30, deadline=None)
def test_any_lengths_give_what_each_row_gives_alone(lengths: list[int], bidirectional: bool) -> None:
    torch.manual_seed(len(lengths))
    rnn = RNN("lstm", 3, 4, bidirectional=bidirectional, initial="learned")
    x = torch.randn(len(lengths), 5, 3)
    output, state = rnn(x, torch.tensor(lengths))
    for row, length in enumerate(lengths):
        alone, final = rnn(x[row : row + 1, :length])
        assert_close(output[row : row + 1, :length], alone)
        assert_close(tensors(select_rows(state, torch.tensor([row]))), tensors(final))


def test_gradients_of_the_reference_are_those_of_its_numbers(cell: CellChoice) -> None:
    rnn = RNN(cell, 2, 3, bidirectional=True, backend="reference").double()
    x = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: tensors(rnn(x, torch.tensor([3, 2]))), x)


def test_an_empty_batch_and_no_steps(cell: CellChoice) -> None:
    rnn = RNN(cell, 5, 6, initial="learned")
    for batch, time in ((0, 4), (3, 0)):
        output, state = rnn(torch.randn(batch, time, 5))
        assert output.shape == (batch, time, rnn.output_size)
        assert_close(tensors(state), tensors(rnn.initial_state(batch, output)))


@pytest.mark.parametrize(("batch", "time"), [(0, 4), (3, 0)])
@pytest.mark.parametrize("merge", ["concat", "project"])
def test_outputs_of_no_rows_or_no_steps_have_a_gradient_of_zero(batch: int, time: int, merge: Merge) -> None:
    """As those of nn.GRU, so that a loss over many batches need not look whether one of them is empty."""
    rnn = RNN("gru", 5, 6, layers=2, bidirectional=True, merge=merge)
    x = torch.randn(batch, time, 5, requires_grad=True)
    for output in (rnn(x)[0], rnn.last(x)):
        rnn.zero_grad()
        output.sum().backward()
        assert x.grad is not None
        assert all(weight.grad is not None and not weight.grad.any() for weight in rnn.layers[0].cells.parameters())
    assert rnn.last(x).shape == (batch, rnn.output_size)
    assert not rnn.last(x).any()


@pytest.mark.covers("R9")
def test_a_backward_direction_is_the_cell_on_the_reversed_row() -> None:
    rnn = RNN("lstm", 3, 4, bidirectional=True)
    alone = RNN("lstm", 3, 4)
    alone.layers[0].cells[0].load_state_dict(rnn.layers[0].cells[1].state_dict())
    x = torch.randn(2, 5, 3)
    output, ((_, backward),) = rnn(x, torch.tensor([5, 3]))
    mirrored, (final,) = alone(x[1:, :3].flip(1))
    assert_close(output[1:, :3, 4:], mirrored.flip(1))
    assert_close(backward.c[1:], final.c)


@pytest.mark.covers("R9")
def test_merges_by_their_names() -> None:
    x = torch.randn(2, 3, 5)
    both = RNN("gru", 5, 4, bidirectional=True)
    ahead, back = both(x)[0].chunk(2, dim=-1)
    for merge, expected in (("sum", ahead + back), ("mean", (ahead + back) / 2)):
        other = RNN("gru", 5, 4, bidirectional=True, merge=merge)
        other.load_state_dict(both.state_dict())
        assert_close(other(x)[0], expected)
        assert other.output_size == 4
    projected = RNN("gru", 5, 4, bidirectional=True, merge="project")
    projected.load_state_dict(both.state_dict(), strict=False)
    assert_close(projected(x)[0], projected.layers[0].project(torch.cat((ahead, back), -1)))


@pytest.mark.covers("R8")
def test_skips_by_their_definition() -> None:
    x = torch.randn(2, 3, 4)
    residual = RNN("elman", 4, [4, 6], skip="residual")
    first = residual.layers[0](x, None, residual.layers[0].initial_state(2, x))[0] + x
    second = residual.layers[1](first, None, residual.layers[1].initial_state(2, x))[0]
    assert_close(residual(x)[0], second)
    dense = RNN("elman", 4, [5, 6, 7], skip="dense")
    assert [layer.input_size for layer in dense.layers] == [4, 4 + 5, 4 + 5 + 6]
    assert dense(x)[0].shape == (2, 3, 7)


@pytest.mark.covers("R8")
def test_dropout_falls_between_layers_only() -> None:
    x = torch.randn(2, 3, 4)
    single = RNN("elman", 4, 5, dropout=0.9)
    assert_close(single(x)[0], single.eval()(x)[0])
    stacked = RNN("elman", 4, 5, layers=2, dropout=0.9)
    assert not torch.allclose(stacked(x)[0], stacked.eval()(x)[0])


@pytest.mark.covers("T5")
def test_the_look_ahead_model_has_748_parameters() -> None:
    parts = RNN("elman", 8, 20), nn.Linear(20, 8)
    assert sum(parameter.numel() for part in parts for parameter in part.parameters()) == 748


def test_a_finished_cell_is_used_as_it_is() -> None:
    cell = Elman(3, 4, activation="relu")
    rnn = RNN(cell, 3, 4)
    assert rnn.layers[0].cells[0] is cell
    with pytest.raises(ConfigError, match="pass the class Elman"):
        RNN(cell, 3, 4, layers=2)
    with pytest.raises(ConfigError, match="sizes 3, 4 cannot serve as one of 3, 5"):
        RNN(cell, 3, 5)


def test_a_function_may_choose_a_cell_with_its_options() -> None:
    rnn = RNN(lambda inputs, hidden: LSTM(inputs, hidden, forget_bias=3.0), 3, 4, layers=2)
    assert_close(rnn.layers[1].cells[0].from_input.bias[4:8], torch.full((4,), 3.0))


def test_mistakes_are_named() -> None:
    with pytest.raises(ConfigError, match=r'cell: "lstn" is not a cell \(did you mean "lstm"\?\)'):
        RNN("lstn", 3, 4)
    with pytest.raises(ConfigError, match='merge: "cat" is not a choice'):
        RNN("lstm", 3, 4, bidirectional=True, merge="cat")
    with pytest.raises(ConfigError, match=r"hidden_size: \[4, 5\] are not the sizes of 3 layers"):
        RNN("lstm", 3, [4, 5], layers=3)
    with pytest.raises(ConfigError, match="layers: 0 layers"):
        RNN("lstm", 3, 4, layers=0)
    with pytest.raises(ConfigError, match="step by step"):
        RNN("lstm", 3, 4, bidirectional=True).step(torch.zeros(1, 3), ())
    x = torch.zeros(2, 3, 3)
    with pytest.raises(DataError, match=r"lengths \[4, 1\] do not fit a batch of 3 steps"):
        RNN("lstm", 3, 4)(x, torch.tensor([4, 1]))
    with pytest.raises(DataError, match="the batch has 2 rows"):
        RNN("lstm", 3, 4)(x, torch.tensor([1]))


def test_every_named_cell_is_what_its_name_builds() -> None:
    for name, cell in CELLS.items():
        assert type(RNN(name, 3, 4).layers[0].cells[0]) is cell


@pytest.mark.parametrize("skip", ["none", "residual", "dense"])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_the_last_output_is_that_of_each_direction_where_it_ends(skip: str, backend: str) -> None:
    torch.manual_seed(0)
    rnn = RNN("lstm", 5, 6, layers=3, bidirectional=True, skip=skip, backend=backend)
    x = torch.randn(4, 4, 5)
    output, state = rnn(x, LENGTHS)
    last = rnn.last(x, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        ahead = output[row, length - 1, :6] if length else torch.zeros(6)
        assert_close(last[row], torch.cat((ahead, output[row, 0, 6:])))
    if skip != "residual":
        ahead, back = state[-1]
        assert_close(last[:2], torch.cat((ahead.h, back.h), dim=-1)[:2])


@pytest.mark.parametrize("merge", ["sum", "mean", "project"])
def test_the_last_outputs_of_two_directions_are_merged_as_all_others_are(merge: str) -> None:
    torch.manual_seed(0)
    rnn, plain = RNN("gru", 5, 6, bidirectional=True, merge=merge), RNN("gru", 5, 6, bidirectional=True)
    plain.load_state_dict(rnn.state_dict(), strict=False)
    x = torch.randn(4, 4, 5)
    _, [(ahead, back)] = plain(x, LENGTHS)
    expected = {"sum": lambda: ahead + back, "mean": lambda: (ahead + back) / 2}.get(
        merge, lambda: rnn.layers[0].project(torch.cat((ahead, back), dim=-1))
    )()
    assert_close(rnn.last(x, LENGTHS), expected.masked_fill(LENGTHS[:, None] == 0, 0))
    assert not rnn.last(x[:, :0]).any()


def test_the_last_output_of_one_direction_is_that_of_the_last_step() -> None:
    rnn, x = RNN("gru", 6, 6, layers=2, skip="residual"), torch.randn(4, 4, 6)
    output, _ = rnn(x, LENGTHS)
    rows = torch.arange(4)
    assert_close(rnn.last(x, LENGTHS), output[rows, LENGTHS - 1].masked_fill(LENGTHS[:, None] == 0, 0))
    assert_close(rnn.last(x), rnn(x)[0][:, -1])


class InPlace(Cell):
    """h' = 0.5 h + W x, written into h."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h.mul_(0.5).add_(self.from_input(x))
        return h, h


class NewTensor(InPlace):
    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = 0.5 * h + self.from_input(x)
        return h, h


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("lengths", [None, LENGTHS])
def test_a_step_that_changes_its_state_in_place_changes_no_state_of_yours(
    lengths: Tensor | None, inference: bool
) -> None:
    rnn, plain = RNN(InPlace, 5, 6), RNN(NewTensor, 5, 6)
    plain.load_state_dict(rnn.state_dict())
    with torch.inference_mode(inference):
        x, state = torch.randn(4, 4, 5), (torch.ones(4, 6),)
        found = rnn(x, lengths, state)
        assert_close(state, (torch.ones(4, 6),))
        assert_close(found, plain(x, lengths, state))


class Wide(NewTensor):
    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        output, h = super().step(x, h)
        return torch.cat((output, h), dim=-1), h


class Alone(NewTensor):
    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        return super().step(x, h)[0]  # type: ignore[return-value]


class Flat(NewTensor):
    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        output, h = super().step(x, h)
        return output.sum(-1), h


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize(
    ("cell", "mistake"),
    [
        (Wide, r"Wide.step returns an output of \(3, 12\), where \(3, 6\) is expected"),
        (Alone, r"Alone.step returns Tensor, not \(output, state\)"),
        (Flat, r"Flat.step returns an output of \(3,\), where \(3, 6\) is expected"),
    ],
)
def test_a_step_that_returns_something_else_is_named_with_its_line(
    cell: type[Cell], mistake: str, backend: Backend
) -> None:
    rnn = RNN(cell, 5, 6, backend=backend)
    for run in (
        lambda: rnn(torch.randn(3, 4, 5)),
        lambda: rnn.step(torch.randn(3, 5), rnn.initial_state(3, torch.empty(0))),
    ):
        with pytest.raises(ConfigError, match=rf"test_rnn.py:\d+: {mistake}"):
            run()


@pytest.mark.parametrize("cell", ["lstm", "peephole_lstm", "min_gru"])
def test_no_backend_follows_autocast_on_a_cpu(cell: CellChoice) -> None:
    """The numbers are those without it, whatever the type of the input."""
    for backend in get_args(Backend):
        if backend in ("scan", "vendor") and cell != {"scan": "min_gru", "vendor": "lstm"}[backend]:
            continue
        rnn = RNN(cell, 5, 6, backend=backend)
        x = torch.randn(3, 4, 5).bfloat16()
        wanted = rnn(x.float())
        with torch.autocast("cpu"):
            found = rnn(x)
            first, _ = rnn.step(x[:, 0], rnn.initial_state(3, x))
        assert found[0].dtype == torch.float32
        assert_close(tensors(found), tensors(wanted), check_dtype=False)
        assert_close(first, wanted[0][:, 0])
