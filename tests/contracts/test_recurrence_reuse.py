"""A network used more than once: reused buffers, cached plans and threads must never show in the numbers."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.contracts.conftest import CASES
from tests.sampling import sampled
from torch import Tensor, nn
from torch.testing import assert_close

from weft.errors import WeftError
from weft.nn import CELLS, RNN
from weft.nn.recurrent.engine.plan import KERNELS, PLANS, Plan
from weft.nn.recurrent.engine.run import plan_of
from weft.nn.state import leaves_of

LENGTHS = torch.tensor([5, 2, 0, 4])
CLOSE: dict[str, Any] = {"rtol": 1e-5, "atol": 1e-5}
SAMPLED = sampled(1, case=CASES, lengths={"full": None, "lengths": LENGTHS}, indirect=["case"])


def gradients(*modules: nn.Module) -> list[Tensor]:
    return [parameter.grad.clone() for module in modules for parameter in module.parameters()]


def assert_bitwise(found: list[Tensor], expected: list[Tensor]) -> None:
    assert_close(found, expected, rtol=0, atol=0)


@SAMPLED
def test_called_twice_before_one_backward(case: Any, lengths: Tensor | None, paired: Any) -> None:
    pair = paired(case.choice, bidirectional=True)
    one, other = torch.randn(4, 5, 5), torch.randn(4, 5, 5)
    found = []
    for rnn in (pair.engine, pair.reference):
        rnn.zero_grad()
        inputs = [x.clone().requires_grad_() for x in (one, other)]
        first, second = (rnn(x, lengths) for x in inputs)
        pair.loss_of(*first, *second, first[0] * second[0]).backward()
        found.append([first[0], second[0], *(x.grad for x in inputs), *gradients(rnn)])
    assert_close(*found, **CLOSE)


@SAMPLED
def test_backward_twice_over_one_graph(case: Any, lengths: Tensor | None, paired: Any) -> None:
    pair = paired(case.choice, bidirectional=True)
    for rnn in (pair.engine, pair.reference):
        output, final = rnn(torch.ones(4, 5, 5), lengths)
        loss = pair.loss_of(output, final)
        kept = output.clone()
        rnn.zero_grad()
        loss.backward(retain_graph=True)
        once = gradients(rnn)
        loss.backward()
        assert_close(gradients(rnn), [2 * gradient for gradient in once], rtol=0, atol=0)
        assert torch.equal(output, kept), "a backward pass leaves the output alone"
    assert_close(gradients(pair.engine), gradients(pair.reference), **CLOSE)


def test_a_part_of_the_outputs_is_used(case: Any, paired: Any) -> None:
    """Some gradients are then missing or zero, each in its own place."""
    pair, x = paired(case.choice, layers=2), torch.randn(4, 5, 5)
    uses: list[Callable[..., Tensor]] = [
        lambda output, final: output[:, 2].sum(),
        lambda output, final: leaves_of(final)[0].sum(),
        lambda output, final: leaves_of(final)[-1].sum(),
        lambda output, final: output[1].sum() + leaves_of(final)[-1][2].sum(),
    ]
    for use in uses:
        found = []
        for rnn in (pair.engine, pair.reference):
            inputs = x.clone().requires_grad_()
            rnn.zero_grad()
            use(*rnn(inputs, LENGTHS)).backward()
            zeros = torch.zeros(())
            found.append([inputs.grad, *(zeros if p.grad is None else p.grad + 0 for p in rnn.parameters())])
        shaped = [torch.broadcast_tensors(a, b) for a, b in zip(*found, strict=True)]
        assert_close([a for a, _ in shaped], [b for _, b in shaped], **CLOSE)


def test_two_networks_in_turn(paired: Any) -> None:
    """Of one kind and size, so that they share kernels: the second must not disturb what the first has kept."""
    x = torch.randn(4, 5, 5)
    pairs = [paired("lstm"), paired("lstm", bidirectional=True), paired("gru"), paired("lstm")]
    with torch.no_grad():
        for parameter, same in zip(pairs[-1].engine.parameters(), pairs[-1].reference.parameters(), strict=True):
            same.copy_(parameter.mul_(-0.5))
    found = []
    for side in ("engine", "reference"):
        rnns = [getattr(pair, side) for pair in pairs]
        for rnn in rnns:
            rnn.zero_grad()
        inputs = [x.clone().requires_grad_() for _ in rnns]
        outputs = [rnn(one, LENGTHS)[0] for rnn, one in zip(rnns, inputs, strict=True)]
        for output in (outputs[2], outputs[0], outputs[3], outputs[1]):
            output.square().sum().backward()
        found.append([*outputs, *(one.grad for one in inputs), *gradients(*rnns)])
    assert_close(*found, **CLOSE)


@pytest.mark.parametrize("shapes", [[(4, 5), (2, 9), (7, 1), (4, 5)]], ids=["shapes"])
def test_batches_of_changing_shape(shapes: list[tuple[int, int]], paired: Any) -> None:
    pair = paired("gru", bidirectional=True)
    for batch, time in shapes:
        x = torch.randn(batch, time, 5)
        pair.assert_same(x, torch.arange(batch) % (time + 1), pair.random_state(x))
        pair.assert_same(x)


def test_the_same_call_gives_the_same_bits(case: Any, paired: Any) -> None:
    pair, x = paired(case.choice, bidirectional=True), torch.randn(4, 5, 5)
    state = pair.random_state(x)
    first, *others = [list(pair.measure(pair.engine, x, LENGTHS, state).values()) for _ in range(3)]
    for other in others:
        assert_bitwise(other, first)


def test_inputs_and_weights_are_left_alone(case: Any, paired: Any) -> None:
    pair, x = paired(case.choice, bidirectional=True), torch.randn(4, 5, 5)
    state = pair.random_state(x)
    given = [x, *leaves_of(state), *pair.engine.parameters()]
    before = [tensor.detach().clone() for tensor in given]
    pair.loss_of(*pair.engine(x, LENGTHS, state)).backward()
    assert_bitwise([tensor.detach() for tensor in given], before)


def second_derivative(rnn: RNN, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    (first,) = torch.autograd.grad(rnn(x, LENGTHS)[0].square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    return second


def test_double_backward_is_right_or_refused(case: Any, paired: Any) -> None:
    pair, x = paired(case.choice), torch.randn(4, 5, 5)
    if case.backend == "plain":
        assert_close(second_derivative(pair.engine, x), second_derivative(pair.reference, x), rtol=1e-4, atol=1e-4)
        return
    with pytest.raises(WeftError, match=r'no second derivative \(use backend="reference"\)'):
        second_derivative(pair.engine, x)


def test_double_backward_in_plain_torch(case: Any, paired: Any) -> None:
    pair, x = paired(case.choice).double(), torch.randn(4, 5, 5, dtype=torch.float64)
    assert_close(second_derivative(pair.engine, x), second_derivative(pair.reference, x))


@pytest.fixture
def thread_count() -> Iterator[None]:
    count = torch.get_num_threads()
    yield
    torch.set_num_threads(count)


@pytest.mark.usefixtures("thread_count")
@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("name", ["lstm", "gru", "Traces"])
def test_the_number_of_threads_changes_nothing(name: str, bidirectional: bool, own: Any, paired: Any) -> None:
    pair, x = paired(own.get(name, name), bidirectional=bidirectional), torch.randn(70, 5, 5)
    lengths, state = torch.arange(70) % 6, pair.random_state(x)
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        found.append(pair.measure(pair.engine, x, lengths, state))
    weights = {name for name, _ in pair.engine.named_parameters()}
    for name, value in found[0].items():  # a weight's gradient is a sum over all steps, in an order that torch chooses
        within = {"rtol": 1e-5, "atol": 1e-5} if name in weights else {"rtol": 1e-6, "atol": 1e-6}
        for other in found[1:]:
            assert_close(other[name], value, **within)


def in_threads(jobs: list[Callable[[], Any]]) -> list[Any]:
    """The results of jobs that all start at once, with threads that take turns as often as Python can."""
    results: list[Any] = [None] * len(jobs)
    barrier = threading.Barrier(len(jobs))

    def run(number: int) -> None:
        barrier.wait()
        results[number] = jobs[number]()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(jobs))]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    return results


def test_plans_made_at_the_same_time_stay_apart() -> None:
    """Of cells that are all unlike, since those that are alike share a plan."""
    cells = [cell(5, 50 + number) for number, cell in enumerate([*CELLS.values()] * 3)]
    plans = in_threads([lambda cell=cell: plan_of(cell) for cell in cells])
    for cell, plan in zip(cells, plans, strict=True):
        assert isinstance(plan, Plan)
        assert plan.kernels is not None
        assert PLANS.plan(plan.number) is plan
        assert KERNELS[plan.kernels.number] is plan.kernels
        assert cell.hidden_size in plan.kernels.program.state


def test_calls_from_several_threads_give_the_right_answer(paired: Any) -> None:
    x = torch.randn(4, 5, 5)
    pairs = [paired(name) for name in ("lstm", "gru", "lstm", "elman")]
    expected = [pair.measure(pair.reference, x, LENGTHS) for pair in pairs]
    for pair in pairs:
        pair.engine(x)  # plans made at once have a test of their own

    def train(pair: Any) -> list[dict[str, Tensor]]:
        return [pair.measure(pair.engine, x, LENGTHS) for _ in range(5)]

    for found, right in zip(in_threads([lambda pair=pair: train(pair) for pair in pairs]), expected, strict=True):
        for one in found:
            assert_close(one, right, **CLOSE)
