"""Products of matrices in C: the numbers of float64, in every layout, the same bits in any number of threads."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.testing import assert_close
from torch.utils.flop_counter import FlopCounterMode

from weft.nn import RNN
from weft.nn.cross_entropy import linear_cross_entropy
from weft.nn.linear import Linear
from weft.nn.native import product
from weft.nn.native.library import Library
from weft.nn.native.product import multiply, multiply_transposed

pytestmark = pytest.mark.usefixtures("a_compiler")

SIZES = [(1, 1, 1), (7, 5, 33), (65, 300, 31), (300, 64, 97), (513, 257, 64), (3, 1100, 130), (600, 32, 32)]


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every product by C, on any processor; the functions that were called."""
    called: list[str] = []
    once = Library.call

    def call(self: Library, name: str, *arguments: object) -> None:
        called.append(name)
        once(self, name, *arguments)

    monkeypatch.setattr(product, "beats_torch", lambda: True)
    monkeypatch.setattr(product, "MIN_TERMS", 1)
    monkeypatch.setattr(Library, "call", call)
    torch.manual_seed(0)
    return called


def close(found: Tensor, exact: Tensor) -> None:
    assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("biased", [False, True], ids=["bare", "biased"])
def test_rows_times_a_matrix_in_any_layout(size: tuple[int, int, int], biased: bool, calls: list[str]) -> None:
    rows, depth, width = size
    x, weight = torch.randn(rows, depth + 3)[:, 1:-2], torch.randn(width, depth)
    bias = torch.randn(2 * width)[::2] if biased else None
    exact = x.double() @ weight.double().t() + (0 if bias is None else bias.double())
    wide = torch.full((rows, width + 5), torch.nan)
    close(multiply(x, weight.t(), bias=bias), exact)
    close(multiply(x, weight.t().contiguous(), bias=bias), exact)
    close(multiply(x, weight.t(), bias=bias, out=wide[:, 2:-3]), exact)
    assert wide[:, :2].isnan().all()
    assert wide[:, -3:].isnan().all()
    assert calls == 3 * ["multiply"]


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sums_over_rows(size: tuple[int, int, int], calls: list[str]) -> None:
    rows, depth, width = size
    left, right = torch.randn(rows, depth + 3)[:, 1:-2], torch.randn(rows, width + 1)[:, 1:]
    exact = left.double().t() @ right.double()
    close(multiply_transposed(left, right), exact)
    total = torch.randn(depth, width)
    before = total.double()
    assert multiply_transposed(left, right, total=total) is total
    close(total, exact + before)
    assert calls == 2 * ["multiply_transposed"]


def test_one_row_for_all_and_infinities() -> None:
    x, weight = torch.randn(1, 40).expand(50, 40), torch.randn(40, 40)
    close(multiply(x, weight), x.double() @ weight.double())
    close(multiply_transposed(x, weight.repeat(2, 1)[:50]), x.double().t() @ weight.repeat(2, 1)[:50].double())
    x = torch.randn(70, 40)
    x[3, 5], x[60, 0] = torch.inf, torch.nan
    found = multiply(x, weight)
    assert found[3].isinf().all()
    assert found[60].isnan().all()
    assert found.isfinite().all(1).sum() == 68


def test_the_bits_depend_on_neither_threads_nor_other_rows() -> None:
    x, weight, gradient = torch.randn(700, 300), torch.randn(300, 200), torch.randn(700, 200)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 8):
            torch.set_num_threads(threads)
            found.append((multiply(x, weight), multiply_transposed(x, gradient)))
    finally:
        torch.set_num_threads(before)
    for rest in found[1:]:
        assert all(map(torch.equal, rest, found[0]))
    for rows in (1, 2, 9, 64, 65, 699):
        assert torch.equal(multiply(x[:rows], weight), found[0][0][:rows])


@pytest.mark.parametrize(
    ("x", "weight"),
    [
        (torch.randn(4, 6).double(), torch.randn(6, 5).double()),
        (torch.randn(4, 6).bfloat16(), torch.randn(6, 5).bfloat16()),
        (torch.randn(6, 4).t(), torch.randn(6, 5)),
    ],
    ids=["float64", "bf16", "columns"],
)
def test_other_tensors_are_left_to_torch(x: Tensor, weight: Tensor, calls: list[str]) -> None:
    assert torch.equal(multiply(x, weight), x @ weight)
    assert not calls


def gradients(module: nn.Module, x: Tensor, weights: Tensor) -> list[Tensor]:
    module.zero_grad()
    x = x.clone().requires_grad_()
    (module(x) * weights).sum().backward()
    assert x.grad is not None
    return [x.grad, *(p.grad for p in module.parameters() if p.grad is not None)]


@pytest.mark.parametrize("bias", [True, False])
def test_a_linear_map_equals_torchs(bias: bool, calls: list[str]) -> None:
    ours, plain = Linear(40, 70, bias=bias), nn.Linear(40, 70, bias=bias)
    plain.load_state_dict(ours.state_dict())
    x, weights = torch.randn(3, 50, 40), torch.randn(3, 50, 70)
    assert_close(ours(x), plain(x), rtol=1e-5, atol=1e-5)
    assert_close(ours.relu(x), F.relu(plain(x)), rtol=1e-5, atol=1e-5)
    with torch.no_grad():
        assert_close(ours(x), plain(x), rtol=1e-5, atol=1e-5)
    for found, right in zip(gradients(ours, x, weights), gradients(plain, x, weights), strict=True):
        assert_close(found, right, rtol=1e-4, atol=1e-4)
        assert found.stride() == right.stride()
    ours.weight.requires_grad_(False)
    assert len(gradients(ours, x, weights)) == 1 + bias
    assert set(calls) == {"multiply", "multiply_transposed"}


def test_a_linear_map_has_second_derivatives_and_transforms() -> None:
    ours = Linear(6, 5)
    x = torch.randn(4, 6, requires_grad=True)
    (slope,) = torch.autograd.grad(ours(x).pow(3).sum(), x, create_graph=True)
    found = torch.autograd.grad(slope.sum(), [x, ours.weight])
    cubes = F.linear(x, ours.weight, ours.bias).pow(3).sum()
    (slope,) = torch.autograd.grad(cubes, x, create_graph=True)
    assert_close(found, torch.autograd.grad(slope.sum(), [x, ours.weight]))
    assert_close(torch.func.vmap(ours)(x), ours(x))
    assert_close(torch.func.jacrev(ours)(x[0]), ours.weight)
    assert ours.to("meta")(x.to("meta")).shape == (4, 5)


@pytest.mark.filterwarnings("ignore:.torch.jit")
def test_what_casts_compiles_traces_or_counts_gets_torchs_product(calls: list[str]) -> None:
    ours, x = Linear(40, 70), torch.randn(8, 40)
    traced = torch.jit.trace(ours, x, check_trace=False)
    assert_close(traced(2 * x), F.linear(2 * x, ours.weight, ours.bias))
    with FlopCounterMode(display=False) as counter:
        ours(x)
    assert counter.get_total_flops() == 2 * 8 * 40 * 70
    with forward_ad.dual_level():
        slope = forward_ad.unpack_dual(ours(forward_ad.make_dual(x, torch.ones_like(x)))).tangent
    assert_close(slope, F.linear(torch.ones_like(x), ours.weight))
    with torch.autocast("cpu", torch.bfloat16):
        assert ours(x).dtype == torch.bfloat16
    compiled = torch.compile(ours, backend="eager", fullgraph=True)
    assert_close(compiled(x), F.linear(x, ours.weight, ours.bias))
    assert not calls


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_of_an_output_equals_torchs(
    smoothing: float, calls: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.nn.cross_entropy.rows_at_once", lambda *_: 16)
    hidden, weight, bias = torch.randn(50, 24), torch.randn(90, 24), torch.randn(90)
    given = [part.requires_grad_() for part in (hidden, weight, bias)]
    targets = torch.randint(0, 90, (50,))
    loss = linear_cross_entropy(*given, targets, label_smoothing=smoothing)
    right = F.cross_entropy(F.linear(*given), targets, reduction="sum", label_smoothing=smoothing)
    assert_close(loss, right)
    assert_close(torch.autograd.grad(loss, given), torch.autograd.grad(right, given), rtol=1e-4, atol=1e-4)
    assert set(calls) == {"multiply", "multiply_transposed"}


@pytest.mark.parametrize("cell", ["min_gru", "lstm", "elman"])
def test_a_recurrence_equals_the_reference(cell: str, calls: list[str]) -> None:
    ours, plain = RNN(cell, 20, 33, bidirectional=True), RNN(cell, 20, 33, bidirectional=True, backend="reference")
    plain.load_state_dict(ours.state_dict())
    x, weights = torch.randn(5, 9, 20), torch.randn(5, 9, 66)
    pairs = [gradients(Outputs(rnn), x, weights) for rnn in (ours, plain)]
    for found, right in zip(*pairs, strict=True):
        assert_close(found, right, rtol=1e-4, atol=1e-4)
    assert set(calls) == {"multiply", "multiply_transposed"}


class Outputs(nn.Module):
    def __init__(self, rnn: RNN) -> None:
        super().__init__()
        self.rnn = rnn

    def forward(self, x: Tensor) -> Tensor:
        return self.rnn(x)[0]
