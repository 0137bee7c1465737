"""Laws that every cell must keep when the engine runs it, whoever wrote the cell."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.contracts.conftest import CASES
from tests.sampling import sampled
from torch import Tensor
from torch.testing import assert_close

from weft.errors import ConfigError
from weft.nn import CELLS, RNN, Cell, detach, map_state, select_rows
from weft.nn.state import leaves_of

LENGTHS = torch.tensor([5, 2, 0, 3])
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}


SAMPLED = sampled(1, case=CASES, lengths={"full": None, "lengths": LENGTHS}, indirect=["case"])
"""Each cell with all steps of all rows, or with rows of different lengths."""


@pytest.fixture
def x() -> Tensor:
    return torch.randn(4, 5, 5, generator=torch.Generator().manual_seed(1))


@pytest.mark.covers("R7")
def test_every_cell_runs_where_it_should(case: Any, paired: Any) -> None:
    rnn = RNN(case.choice, 5, 6)
    assert paired.backend_of(rnn) == case.backend, rnn.explain()


@pytest.mark.covers("R7")
@SAMPLED
def test_the_engine_gives_what_the_reference_gives(case: Any, paired: Any, x: Tensor, lengths: Tensor | None) -> None:
    pair = paired(case.choice)
    pair.assert_same(x, lengths, pair.random_state(x))


@SAMPLED
def test_both_directions_give_what_the_reference_gives(case: Any, paired: Any, x: Tensor, lengths: Any) -> None:
    pair = paired(case.choice, bidirectional=True)
    pair.assert_same(x, lengths, pair.random_state(x))


def test_gradients_are_those_of_the_numbers(case: Any, paired: Any) -> None:
    """In double precision, where numerical derivatives mean something; the plan then runs in plain torch."""
    rnn = paired(case.choice, 2, 3, bidirectional=True, initial="learned").double().engine
    x = torch.randn(2, 3, 2, dtype=torch.float64, requires_grad=True)
    inputs = [x, *rnn.parameters()]
    assert paired.backend_of(rnn) == "plain"
    assert torch.autograd.gradcheck(
        lambda *_: leaves_of(rnn(x, torch.tensor([3, 2]))), inputs, fast_mode=True, atol=1e-6
    )


def test_the_plan_in_plain_torch_gives_what_the_reference_gives(case: Any, paired: Any, x: Tensor) -> None:
    pair = paired(case.choice, bidirectional=True).double()
    x = x.double()
    pair.assert_same(x, LENGTHS, pair.random_state(x), within=1e-12)


def test_all_steps_at_once_equal_single_steps(case: Any, paired: Any, x: Tensor) -> None:
    rnn = paired(case.choice, hidden_size=[6, 5, 5], skip="residual").engine
    output, final = rnn(x)
    state = rnn.initial_state(4, x)
    for t in range(x.size(1)):
        step, state = rnn.step(x[:, t], state)
        assert_close(step, output[:, t], **CLOSE)
    assert_close(leaves_of(state), leaves_of(final), **CLOSE)


def test_padding_changes_no_row(case: Any, paired: Any, x: Tensor) -> None:
    """Each row alone has the outputs and gradients it has among others, whatever stands in the padding."""
    pair = paired(case.choice, layers=2, bidirectional=True)
    rnn = pair.engine
    garbage = x.clone()
    garbage[1, 2:], garbage[2], garbage[3, 3:] = torch.nan, torch.inf, 1e30
    together = garbage.requires_grad_()
    output, final = rnn(together, LENGTHS)
    output.square().sum().backward()
    summed = {name: parameter.grad.clone() for name, parameter in rnn.named_parameters()}
    rnn.zero_grad()
    for row, length in enumerate(LENGTHS.tolist()):
        alone = x[row : row + 1, :length].clone().requires_grad_()
        own_output, own_final = rnn(alone)
        if length:
            own_output.square().sum().backward()
            assert_close(together.grad[row : row + 1, :length], alone.grad, **CLOSE)
        assert_close(output[row : row + 1, :length], own_output, **CLOSE)
        assert_close(leaves_of(select_rows(final, torch.tensor([row]))), leaves_of(own_final), **CLOSE)
        assert not output[row, length:].any()
        assert not together.grad[row, length:].any()
    assert_close({name: parameter.grad for name, parameter in rnn.named_parameters()}, summed, **CLOSE)


def test_rows_permute(case: Any, paired: Any, x: Tensor) -> None:
    rnn, rows = paired(case.choice, bidirectional=True).engine, torch.tensor([2, 0, 3, 1])
    output, final = rnn(x, LENGTHS)
    moved, moved_final = rnn(x[rows], LENGTHS[rows])
    assert_close(moved, output[rows], **CLOSE)
    assert_close(leaves_of(moved_final), leaves_of(select_rows(final, rows)), **CLOSE)


def test_every_parameter_gets_a_gradient(case: Any, paired: Any, x: Tensor) -> None:
    rnn = paired(case.choice, layers=2, bidirectional=True, initial="learned").engine
    rnn(x, LENGTHS)[0].square().sum().backward()
    silent = [name for name, weight in rnn.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert silent == []


def test_a_state_carried_over_two_halves_equals_one_run(case: Any, paired: Any, x: Tensor) -> None:
    pair = paired(case.choice, layers=2)
    whole = pair.measure(pair.engine, x)
    inputs = x.clone().requires_grad_()
    pair.engine.zero_grad()
    first, state = pair.engine(inputs[:, :2])
    second, final = pair.engine(inputs[:, 2:], state=state)
    output = torch.cat((first, second), dim=1)
    pair.loss_of(output, final).backward()
    halves = {"output": output, "x": inputs.grad}
    halves |= {f"final {number}": part for number, part in enumerate(leaves_of(final))}
    halves |= {name: parameter.grad for name, parameter in pair.engine.named_parameters()}
    assert_close(halves, whole, **CLOSE)


def test_a_detached_state_truncates_the_gradient(case: Any, paired: Any, x: Tensor) -> None:
    pair = paired(case.choice)
    found = []
    for rnn in (pair.engine, pair.reference):
        rnn.zero_grad()
        inputs = x.clone().requires_grad_()
        _, state = rnn(inputs[:, :2])
        output, final = rnn(inputs[:, 2:], state=detach(state))
        pair.loss_of(output, final).backward()
        assert not inputs.grad[:, :2].any()
        found.append([output, inputs.grad, *(gradient(parameter) for parameter in rnn.parameters())])
    assert_close(*found, **CLOSE)


def gradient(parameter: Tensor) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def test_a_cell_that_no_plan_fits_runs_step_by_step(
    step_by_step: tuple[type[Cell], str], paired: Any, x: Tensor
) -> None:
    cell, reason = step_by_step
    pair = paired(cell, bidirectional=True)
    pair.assert_same(x, LENGTHS, pair.random_state(x))
    explained = pair.engine.explain()
    assert "runs step by step, the cell as it is written" in explained
    assert reason in explained
    with pytest.raises(ConfigError, match=f'backend: "engine" cannot run {cell.__name__}: .*{reason}.*use "auto"'):
        RNN(cell, 5, 6, backend="engine")(x)


@pytest.mark.parametrize("name", CELLS)
def test_a_layer_as_wide_as_its_input(name: str, paired: Any) -> None:
    """Some cells then take the input as it is, and sizes that were told apart are equal."""
    pair, x = paired(name, 4, 4, bidirectional=True), torch.randn(3, 4, 4)
    pair.assert_same(x, torch.tensor([4, 1, 3]), pair.random_state(x))


def test_hooks_see_every_step(paired: Any, x: Tensor) -> None:
    rnn, seen = RNN("gru", 5, 6), []
    rnn(x)
    cell = rnn.layers[0].cells[0]
    handle = cell.register_forward_hook(lambda module, inputs, output: seen.append(inputs[0].shape))
    assert "runs step by step, the cell as it is written (it has hooks" in rnn.explain()
    hooked, _ = rnn(x)
    handle.remove()
    assert seen == [torch.Size([4, 5])] * 5
    assert paired.backend_of(rnn) == "cpu"
    assert_close(hooked, rnn(x)[0], **CLOSE)


def test_a_state_is_carried_from_one_backend_to_another(paired: Any, x: Tensor) -> None:
    pair = paired("lstm")
    whole, _ = pair.reference(x)
    _, state = pair.engine(x[:, :3])
    rest, _ = pair.reference(x[:, 3:], state=map_state(torch.clone, state))
    assert_close(rest, whole[:, 3:], **CLOSE)
