"""The Triton loops and scans of steps without products, in Triton's interpreter on a CPU, beside the reference.

TRITON_INTERPRET=1 python -m pytest tests/nn/recurrent/test_triton_loop.py
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch
from tests.nn.recurrent.test_scan import ELEMENTWISE, LENGTHS, LINEAR, Chain, Halves, Pair, grow, measure
from torch import Tensor, nn
from torch.testing import assert_close

from weft.nn import RNN, Cell, CellChoice, map_state
from weft.nn.kernels import HAS_TRITON
from weft.nn.recurrent.engine import chunks, loop_cuda, rows
from weft.nn.recurrent.engine.argument import Kind
from weft.nn.recurrent.engine.known import plan_of
from weft.nn.recurrent.engine.loop_cuda import TritonLoop
from weft.nn.recurrent.engine.plan import Kernels, Plan, StepCounts
from weft.nn.recurrent.engine.recurrence import recur

pytestmark = [
    pytest.mark.skipif(not HAS_TRITON, reason="needs Triton (pip install triton)"),
    pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="needs TRITON_INTERPRET=1"),
]

RESETS = torch.tensor(
    [
        [0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1],
        [1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
    ],
    dtype=torch.bool,
)


@pytest.fixture(autouse=True)
def _in_triton(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run the kernels for GPUs on tensors of the CPU, with the buffers that a GPU gets."""
    ran: list[Kernels] = []

    def backend(plan: Kernels, like: Tensor) -> TritonLoop:
        ran.append(plan)
        assert isinstance(plan.cuda, TritonLoop)
        return plan.cuda

    monkeypatch.setattr(Kernels, "backend", backend)
    monkeypatch.setattr(rows, "MIN_PADDING_SHARE", 1.0)  # only on a CPU is padding left out of the products
    yield
    assert ran


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("backend", ["loop", "scan"])
@pytest.mark.parametrize("choice", [*LINEAR, Chain, Halves], ids=str)
def test_a_linear_cell_equals_the_reference(choice: CellChoice, backend: str, bidirectional: bool) -> None:
    """Rows of more steps than a block has, which are no multiple of it."""
    pair = Pair(choice, backend, hidden_size=34, bidirectional=bidirectional)
    pair.assert_same(torch.randn(2, 11, 5), None, tolerance=1e-4)
    pair.assert_same(torch.randn(4, 9, 5), LENGTHS[1], tolerance=1e-4)


@pytest.mark.parametrize("choice", ELEMENTWISE, ids=str)
def test_an_elementwise_cell_equals_the_reference(choice: CellChoice) -> None:
    pair = Pair(choice, "loop", hidden_size=34, bidirectional=True)
    pair.assert_same(torch.randn(2, 11, 5), None, tolerance=1e-4)
    pair.assert_same(torch.randn(4, 9, 5), LENGTHS[1], tolerance=1e-4)


@pytest.mark.parametrize("lengths", [None, torch.tensor([11, 2, 0, 7])], ids=["equal", "lengths"])
@pytest.mark.parametrize(("choice", "backend"), [("min_gru", "loop"), ("hgrn", "scan"), (Chain, "scan")], ids=str)
def test_resets(choice: CellChoice, backend: str, lengths: Tensor | None) -> None:
    pair = Pair(choice, backend, hidden_size=6, bidirectional=True)
    x = torch.randn(4, 11, 5)
    state = map_state(torch.randn_like, pair.reference.initial_state(4, x))
    found, expected = (measure(rnn, x, lengths, state, resets=RESETS) for rnn in (pair.tried, pair.reference))
    assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_scan_of_many_chunks_equals_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """More chunks than a block of the carry kernel has, and rows that end in any of them."""
    monkeypatch.setattr(chunks, "MIN_STEPS", 3)
    monkeypatch.setattr(loop_cuda, "_machine", lambda device: chunks.Machine(64, 4, 1.7))
    pair = Pair(Chain, "scan", hidden_size=4, bidirectional=True)
    pair.assert_same(torch.randn(3, 61, 5), torch.tensor([61, 34, 1]), tolerance=1e-4)
    assert "ran as a scan in 16 chunks of 4 steps" in pair.tried.explain()


class Adding(Cell):
    """h' = h + W x"""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)

    def step(self, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
        h = h + self.from_input(x)
        return h, h


def test_a_state_of_zero_stays_zero_where_the_product_of_slopes_overflows(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = grow("reference")
    monkeypatch.setattr(chunks, "MIN_STEPS", 150)
    assert_close(grow("scan"), wanted)


@pytest.mark.parametrize("method", ["loop", "scan"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision_carries_the_state_in_float32(dtype: torch.dtype, method: str) -> None:
    """A small number added many times to one that half precision rounds back to itself."""
    plan = plan_of(Adding(3, 4))
    assert isinstance(plan, Plan)
    kernels = plan.kernels_by(method)
    assert kernels is not None
    hoisted, start, shift = torch.full((40, 4), 2.0**-12, dtype=dtype), torch.ones(1, 4), torch.zeros(4)
    given = [part.requires_grad_() for part in (hoisted, start, shift)]
    [([emitted], [final], *_)] = recur(kernels, given, StepCounts(1, 40, None), [False])
    assert emitted.dtype == dtype
    assert_close(final, torch.full((1, 4), 1 + 40 * 2.0**-12), rtol=0, atol=0)
    final.sum().backward()
    assert hoisted.grad is not None
    assert hoisted.grad.dtype == dtype
    assert_close(shift.grad, torch.full((4,), 40.0), rtol=0, atol=0)


@pytest.mark.parametrize("method", ["loop", "scan"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("choice", ["min_gru", "hgrn", Chain], ids=str)
def test_half_precision_equals_float32_of_the_same_numbers(choice: CellChoice, dtype: torch.dtype, method: str) -> None:
    torch.manual_seed(5)
    plan = plan_of(RNN(choice, 5, 6).layers[0].cells[0])
    assert isinstance(plan, Plan)
    kernels = plan.kernels_by(method)
    assert kernels is not None
    widths = {Kind.HOISTED: kernels.program.hoisted, Kind.START: kernels.program.state}
    inputs = []
    for argument in kernels.inputs:
        if argument.kind in widths:
            rows = 2 if argument.kind is Kind.START else 26
            inputs.append(torch.randn(rows, widths[argument.kind][argument.number]).to(dtype))
        elif argument.kind is Kind.SHIFT:
            inputs.append(torch.randn(kernels.program.hoisted[argument.number]))
        else:
            inputs.append(torch.randn(kernels.program.vectors[argument.number]).to(dtype))

    def run(given: list[Tensor]) -> list[Tensor]:
        given = [part.detach().clone().requires_grad_() for part in given]
        [(emitted, finals, *_)] = recur(kernels, given, StepCounts(2, 13, None), [False])
        torch.autograd.backward([part.float().sum() for part in (*emitted, *finals)])
        return [part.float() for part in (*emitted, *finals, *(part.grad for part in given))]

    for found, expected in zip(run(inputs), run([part.float() for part in inputs]), strict=True):
        assert (found - expected).norm() < 0.02 * expected.norm()


def test_no_steps_and_histories() -> None:
    pair = Pair("min_gru", "engine", hidden_size=4)
    x = torch.randn(2, 9, 5)
    lengths, state = torch.tensor([9, 4]), pair.reference.initial_state(2, x)
    layers = (rnn.layers[0] for rnn in (pair.tried, pair.reference))
    found, expected = (layer.histories(x, lengths, state[0]) for layer in layers)
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
    output, final = pair.tried(x[:, :0])
    assert output.shape == (2, 0, 4)
    assert_close(final, state)


def test_a_compiled_scan_equals_the_loop() -> None:
    rnn = RNN("min_gru", 3, 4, backend="scan")
    compiled = torch.compile(rnn, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 30, 3, requires_grad=True)
    expected = torch.autograd.grad(rnn(x)[0].sum(), [x, *rnn.parameters()])
    found = torch.autograd.grad(compiled(x)[0].sum(), [x, *rnn.parameters()])
    assert_close(found, expected, rtol=1e-5, atol=1e-5)
