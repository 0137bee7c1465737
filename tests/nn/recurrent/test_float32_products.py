"""Float32 products on a GPU have the precision that nn.LSTM would have, and a captured graph keeps to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor

from weft.nn import RNN
from weft.nn.kernels import HAS_TRITON
from weft.nn.recurrent.engine import precision as precisions
from weft.nn.recurrent.engine import products
from weft.nn.recurrent.engine.cuda import CUDABackend
from weft.nn.recurrent.engine.plan import Kernels
from weft.nn.recurrent.engine.precision import EXACT, FAST, product_precision, products_as_of_lstm, products_in

GPU = torch.device("cuda")
MATMUL, CUDNN = torch.backends.cuda.matmul, torch.backends.cudnn


@pytest.fixture(autouse=True)
def _settings() -> Iterator[None]:
    yield
    torch.backends.fp32_precision = "none"
    CUDNN.enabled = True
    CUDNN.allow_tf32 = True
    MATMUL.allow_tf32 = False
    MATMUL.fp32_precision = "none"
    CUDNN.rnn.fp32_precision = CUDNN.conv.fp32_precision = "tf32"


def test_the_precision_is_that_of_cudnn() -> None:
    assert product_precision() == FAST  # torch's own default
    CUDNN.allow_tf32 = False
    assert product_precision() == EXACT
    CUDNN.rnn.fp32_precision = "tf32"
    assert product_precision() == FAST
    CUDNN.rnn.fp32_precision = "ieee"
    MATMUL.fp32_precision = "tf32"
    assert product_precision() == EXACT


def test_without_cudnn_it_is_that_of_products() -> None:
    CUDNN.enabled = False
    assert product_precision() == EXACT
    MATMUL.fp32_precision = "tf32"
    assert product_precision() == FAST
    MATMUL.allow_tf32 = False
    assert product_precision() == EXACT


@pytest.mark.parametrize("general", ["none", "ieee", "tf32"])
@pytest.mark.parametrize("own", ["none", "ieee", "tf32"])
@pytest.mark.parametrize("precision", [EXACT, FAST])
def test_the_setting_is_put_back(general: str, own: str, precision: str) -> None:
    torch.backends.fp32_precision, MATMUL.fp32_precision = general, own
    before = MATMUL.fp32_precision
    with products_in(precision, GPU):
        assert (MATMUL.fp32_precision == FAST) == (precision == FAST)
    assert MATMUL.fp32_precision == before
    if own == "none":  # it still follows the general setting
        torch.backends.fp32_precision = "tf32"
        assert MATMUL.fp32_precision == "tf32"


def test_on_a_cpu_nothing_changes() -> None:
    with products_in(FAST, torch.device("cpu")):
        assert MATMUL.fp32_precision != FAST


def test_the_product_before_the_loop_has_it_forward_and_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def entered(like: Tensor) -> AbstractContextManager[None]:
        seen.append(product_precision())
        return products_as_of_lstm(like)

    monkeypatch.setattr(products, "products_as_of_lstm", entered)
    rnn = RNN("lstm", 3, 4)
    CUDNN.rnn.fp32_precision = "ieee"
    output, _ = rnn(torch.randn(2, 5, 3))
    CUDNN.rnn.fp32_precision = "tf32"
    output.sum().backward()
    assert seen == [EXACT, FAST]


def test_only_products_in_float32_on_a_gpu_are_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    entered: list[torch.device] = []

    def enter(precision: str, device: torch.device) -> AbstractContextManager[None]:
        entered.append(device)
        return nullcontext()

    monkeypatch.setattr(precisions, "products_in", enter)
    for device, dtype in (("cuda", torch.float32), ("cuda", torch.bfloat16), ("cpu", torch.float32)):
        with products_as_of_lstm(SimpleNamespace(device=torch.device(device), dtype=dtype)):  # type: ignore[arg-type]
            pass
    assert entered == [GPU]


@pytest.mark.skipif(not HAS_TRITON, reason="needs Triton (pip install triton)")
@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") != "1", reason="needs TRITON_INTERPRET=1")
def test_what_was_captured_does_not_outlive_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[CUDABackend] = []

    def backend(plan: Kernels, like: Tensor) -> CUDABackend:
        assert isinstance(plan.cuda, CUDABackend)
        ran.append(plan.cuda)
        return plan.cuda

    monkeypatch.setattr(Kernels, "backend", backend)
    rnn, x = RNN("elman", 3, 4), torch.randn(2, 5, 3)
    with torch.no_grad():
        for precision in ("tf32", "ieee", "tf32"):
            CUDNN.rnn.fp32_precision = precision
            rnn(x)
    assert len(ran[0]._sessions) == 2
