"""Persistent kernels on a GPU: their numbers beside the plain loop and CUDA graphs, and the choice between them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tests.nn.recurrent.test_persistent import CELLS
from tests.nn.recurrent.test_scan import measure
from torch import Tensor

from weft.nn import RNN, CellChoice, map_state
from weft.nn.recurrent.engine import persistent_choice
from weft.nn.recurrent.engine.persistent import PersistentKernels
from weft.nn.recurrent.engine.persistent_choice import Choice, PersistentChoice

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU with CUDA")

DEVICE = "cuda"
LENGTHS = torch.tensor([70, 2, 0, 51, 69, 70, 33, 1, 64, 70, 12])


@pytest.fixture
def persistent(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Every pass by the most promising persistent kernel; the passes that ran, True for a backward one."""
    ran: list[bool] = []

    def choose(
        self: PersistentChoice, kernels: PersistentKernels, tensors: Any, steps: Any, *_: Any, backward: bool
    ) -> Choice:
        ran.append(backward)
        return Choice(kernels.tilings(steps.batch, len(tensors), 132, backward=backward)[0], 1.0, 2.0)

    monkeypatch.setattr(PersistentChoice, "_choose", choose)
    yield ran
    assert set(ran) == {False, True}


def compare(choice: CellChoice, x: Tensor, lengths: Tensor | None, dtype: torch.dtype, **more: Any) -> None:
    torch.manual_seed(1)
    resets = {"resets": more.pop("resets")} if "resets" in more else {}
    hidden = more.pop("hidden", 96)
    tried = RNN(choice, x.size(2), hidden, backend="engine", **more).to(DEVICE, dtype)
    plain = RNN(choice, x.size(2), hidden, backend="reference", **more).to(DEVICE, torch.float64)
    plain.load_state_dict(tried.state_dict())
    state = tried.initial_state(x.size(0), x.to(dtype))
    if "s_lstm" not in str(choice):  # a random normaliser divides by numbers close to zero
        state = map_state(torch.rand_like, state)
    found = measure(tried, x.to(dtype), lengths, state, **resets)
    expected = measure(plain, x.to(dtype).double(), lengths, map_state(Tensor.double, state), **resets)
    starts = max(right.norm() for name, right in expected.items() if name.startswith("start"))
    for name, right in expected.items():
        # The gradient of s_lstm's first stabiliser is zero: its rounding is compared with those of the other states.
        scale = starts if name.startswith("start") and right.norm() < 1e-9 else right.norm().clamp(min=1e-3)
        error = (found[name].double() - right).norm() / scale
        assert error < 0.03, f"{name} is off by {error:.3g}"


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["equal", "lengths"])
@pytest.mark.parametrize("choice", CELLS, ids=str)
def test_it_equals_the_reference_in_float64(choice: CellChoice, lengths: Tensor | None, persistent: list[bool]) -> None:
    compare(choice, torch.randn(11, 70, 32, device=DEVICE), lengths, torch.float16)


@pytest.mark.parametrize("hidden", [32, 256, 512])
def test_both_directions_and_resets(hidden: int, persistent: list[bool]) -> None:
    x = torch.randn(11, 70, 32, device=DEVICE)
    compare("lstm", x, LENGTHS, torch.bfloat16, bidirectional=True, hidden=hidden)
    compare("gru_reset_after", x, None, torch.bfloat16, bidirectional=True, resets=torch.rand(11, 70) < 0.1)


def passes(rnn: RNN, x: Tensor) -> list[Tensor]:
    rnn.zero_grad()
    output, _ = rnn(x)
    output.backward(torch.linspace(-1, 1, output.numel(), device=DEVICE).view_as(output).to(output.dtype))
    return [output.detach().clone(), *(p.grad.clone() for p in rnn.parameters() if p.grad is not None)]


@pytest.mark.parametrize("size", [(16, 512, 256), (16, 128, 768), (64, 200, 512), (256, 64, 256)], ids=str)
def test_every_run_gives_the_same_bits(size: tuple[int, int, int], persistent: list[bool]) -> None:
    """While another stream keeps the GPU busy, blocks meet in another order in every run."""
    batch, time, hidden = size
    rnn = RNN("lstm", hidden, hidden).to(DEVICE, torch.bfloat16)
    x = torch.randn(batch, time, hidden, device=DEVICE, dtype=torch.bfloat16)
    first = passes(rnn, x)
    beside, busy = torch.cuda.Stream(), torch.randn(2048, 2048, device=DEVICE)
    for _ in range(20):
        with torch.cuda.stream(beside):
            for _ in range(8):
                busy = torch.tanh(busy @ busy)
        for again, part in zip(passes(rnn, x), first, strict=True):
            assert torch.equal(again, part)


def test_two_streams_do_not_block_each_other(persistent: list[bool]) -> None:
    """Either kernel needs most of the GPU, and neither gives way."""
    errors: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            torch.manual_seed(seed)
            rnn = RNN("lstm", 512, 512).to(DEVICE, torch.bfloat16)
            x = torch.randn(64, 100, 512, device=DEVICE, dtype=torch.bfloat16)
            with torch.cuda.stream(torch.cuda.Stream()):
                first = passes(rnn, x)
                for _ in range(10):
                    assert all(map(torch.equal, passes(rnn, x), first))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    assert not any(thread.is_alive() for thread in threads)


def test_autocast_keeps_the_states_in_float32(persistent: list[bool]) -> None:
    rnn, plain = (RNN("lstm", 32, 64, backend=backend).to(DEVICE) for backend in ("engine", "reference"))
    plain.load_state_dict(rnn.state_dict())
    x = torch.randn(4, 80, 32, device=DEVICE)
    right, _ = plain(x)
    with torch.autocast(DEVICE, torch.bfloat16):
        output, last = rnn(x)
    output.float().sum().backward()
    assert last[0].c.dtype == torch.float32
    assert (output.float() - right).norm() < 0.02 * right.norm()


def test_the_choice_is_measured_once_and_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[bool] = []
    once: Callable[..., Choice] = persistent_choice._measure

    def count(*args: Any, backward: bool) -> Choice:
        measured.append(backward)
        return once(*args, backward=backward)

    monkeypatch.setattr(persistent_choice, "_measure", count)
    rnn = RNN("lstm", 96, 96).to(DEVICE, torch.bfloat16)
    for batch, time in ((16, 100), (16, 77), (13, 64), (16, 30)):
        passes(rnn, torch.randn(batch, time, 96, device=DEVICE, dtype=torch.bfloat16))
    assert measured == [False, True]
    assert "16 rows of 30 steps in CUDA graphs" in rnn.explain()
    passes(rnn, torch.randn(16, 100, 96, device=DEVICE, dtype=torch.bfloat16))
    assert "µs a step" in rnn.explain()
    two = RNN("gru", 96, 96).to(DEVICE, torch.bfloat16)
    passes(two, torch.randn(16, 100, 96, device=DEVICE, dtype=torch.bfloat16))
    assert "in CUDA graphs (its step has more than one product after another)" in two.explain()


def test_a_loop_without_products_may_be_captured() -> None:
    rnn = RNN("min_gru", 32, 64).to(DEVICE, torch.bfloat16)
    x = torch.randn(4, 50, 32, device=DEVICE, dtype=torch.bfloat16)
    with torch.no_grad():
        right = rnn(x)[0]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            output = rnn(x)[0]
        x.neg_()
        graph.replay()
        assert torch.equal(output, rnn(x)[0])
        assert not torch.equal(output, right)
