"""Loops and scans of steps without products on a GPU, and the precision of products there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from tests.nn.native.test_product import Outputs
from tests.nn.recurrent.test_scan import ELEMENTWISE, LINEAR, Chain, Halves, measure
from torch import Tensor, nn
from torch.testing import assert_close

from weft.nn import RNN, CellChoice, map_state

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")

DEVICE = "cuda"
LENGTHS = torch.tensor([300, 2, 0, 151])


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    before = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(2)
    yield
    torch.backends.cudnn.allow_tf32 = before


def both(choice: CellChoice, backend: str, hidden_size: int = 70) -> tuple[RNN, RNN]:
    """The cell by kernels in float32, and by the reference in float64."""
    tried = RNN(choice, 5, hidden_size, bidirectional=True, backend=backend).to(DEVICE)
    reference = RNN(choice, 5, hidden_size, bidirectional=True, backend="reference").to(DEVICE, torch.float64)
    reference.load_state_dict(tried.state_dict())
    return tried, reference


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["equal", "lengths"])
@pytest.mark.parametrize(
    ("choice", "backend"),
    [(choice, backend) for choice in (*LINEAR, Chain, Halves) for backend in ("loop", "scan")]
    + [(choice, "loop") for choice in ELEMENTWISE],
    ids=str,
)
def test_the_kernels_equal_the_reference_in_float64(choice: CellChoice, backend: str, lengths: Tensor | None) -> None:
    x = torch.randn(4, 300, 5, device=DEVICE)
    tried, reference = both(choice, backend)
    state = map_state(torch.randn_like, tried.initial_state(4, x))
    found = measure(tried, x, lengths, state)
    expected = measure(reference, x.double(), lengths, map_state(Tensor.double, state))
    for name, right in expected.items():
        error = (found[name].double() - right).norm() / right.norm().clamp(min=1e-3)
        assert error < 1e-4, f"{name} is off by {error:.2g}"


@pytest.mark.parametrize(("choice", "backend"), [("min_gru", "loop"), ("hgrn", "scan"), (Chain, "scan")], ids=str)
def test_resets(choice: CellChoice, backend: str) -> None:
    x = torch.randn(4, 300, 5, device=DEVICE)
    resets = torch.rand(4, 300) < 0.05
    tried, reference = both(choice, backend)
    state = tried.initial_state(4, x)
    found = measure(tried, x, LENGTHS, state, resets=resets)
    expected = measure(reference, x.double(), LENGTHS, map_state(Tensor.double, state), resets=resets)
    assert_close(found, {name: part.float() for name, part in expected.items()}, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("backend", ["loop", "scan"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_half_precision(dtype: torch.dtype, backend: str) -> None:
    x = torch.randn(4, 300, 32, device=DEVICE, dtype=dtype)
    half = RNN("min_gru", 32, 96, backend=backend).to(DEVICE, dtype)
    full = RNN("min_gru", 32, 96, backend="reference").to(DEVICE)
    full.load_state_dict(half.state_dict())
    output, expected = half(x)[0], full(x.float())[0]
    assert output.dtype == dtype
    assert (output.float() - expected).norm() < 0.02 * expected.norm()


def test_a_scan_equals_the_loop_over_many_steps() -> None:
    loop, scan = (RNN("hgrn", 3, 40, backend=backend).to(DEVICE) for backend in ("loop", "scan"))
    scan.load_state_dict(loop.state_dict())
    with torch.no_grad():
        x = torch.randn(1, 16_384, 3, device=DEVICE)
        assert_close(scan(x), loop(x), rtol=1e-5, atol=1e-5)
    assert "ran as a scan in" in scan.explain()
    assert "in generated kernels that hold the loop over time" in scan.explain()


def test_equal_settings_give_products_of_equal_precision() -> None:
    """TF32 keeps ten bits: the error of products tells which was used, by a captured graph too."""
    module = nn.LSTM(256, 256, batch_first=True).to(DEVICE)
    rnn = RNN.from_torch(module)
    x = torch.randn(8, 20, 256, device=DEVICE)
    with torch.no_grad():
        right = RNN.from_torch(module.double())(x.double())[0]
        for precision in ("ieee", "tf32", "ieee"):
            torch.backends.cudnn.rnn.fp32_precision = precision
            error = (rnn(x)[0].double() - right).norm() / right.norm()
            assert (error > 2e-5) == (precision == "tf32"), (precision, error)


@pytest.mark.parametrize("choice", ["min_gru", "hgrn", "ind_rnn"])
def test_graphs_of_a_training_loop_of_ones_own(choice: CellChoice) -> None:
    """torch.cuda.make_graphed_callables captures both passes, and their replays give what plain calls give."""
    rnn = RNN(choice, 16, 64, layers=2, backend="loop").to(DEVICE)
    graphed = torch.cuda.make_graphed_callables(
        Outputs(rnn), (torch.randn(4, 100, 16, device=DEVICE, requires_grad=True),)
    )
    for _ in range(3):
        x, gradient = (torch.randn(4, 100, size, device=DEVICE, requires_grad=True) for size in (16, 64))
        wanted = [x, *rnn.parameters()]
        expected = torch.autograd.grad(rnn(x)[0], wanted, gradient)
        found = torch.autograd.grad(graphed(x), wanted, gradient)
        assert_close(found, expected)
