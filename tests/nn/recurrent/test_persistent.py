"""Persistent kernels on a CPU, with a thread of the system for each of the GPU's, beside the plain loop."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from tests.nn.recurrent.test_scan import measure
from torch import Tensor, nn

from weft.nn import RNN, Cell, CellChoice, map_state
from weft.nn.recurrent.engine import persistent, rows
from weft.nn.recurrent.engine.argument import Argument, Kind
from weft.nn.recurrent.engine.known import plan_of
from weft.nn.recurrent.engine.persistent import Launch, PersistentKernels
from weft.nn.recurrent.engine.persistent_plan import Unsuited
from weft.nn.recurrent.engine.persistent_source import Tiling
from weft.nn.recurrent.engine.plan import Kernels, Plan, StepCounts, Tensors

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")

HERE = Path(__file__).parent
H = 32


@cache
def _library(text: str, name: str, folder: Path) -> Any:
    source, library = folder / f"{abs(hash(text))}.c", folder / f"{abs(hash(text))}.so"
    sizes, _, rest = text.partition("/* A recurrence in one kernel")
    parts = [sizes, (HERE / "cuda_on_cpu.h").read_text(), "/*", rest, f"#define RUN_KERNEL {name}\n"]
    source.write_text("".join([*parts, (HERE / "cuda_on_cpu_run.h").read_text()]))
    subprocess.run(["gcc", "-O1", "-w", "-shared", "-fPIC", "-pthread", source, "-o", library, "-lm"], check=True)
    return ctypes.CDLL(str(library))


class OnCPU:
    """A backend that runs every pass of a plan by persistent kernels in bfloat16, and gives float32 back."""

    def __init__(self, plan: Kernels, tiling: Callable[[bool], Tiling], dtype: torch.dtype) -> None:
        self.plan, self.kernels, self.tiling, self.dtype = plan, PersistentKernels(plan), tiling, dtype

    def forward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        self._run(tensors, lambda made: self.kernels.forward(made, steps, reverse, self.tiling(False), keep=True))

    def backward(self, tensors: list[Tensors], steps: StepCounts, reverse: list[bool]) -> None:
        for mine in tensors:
            like = mine[Argument(Kind.GRAD_HOISTED, 0)]
            for number, expr in enumerate(self.plan.layout.vectors):
                mine[Argument(Kind.GRAD_VECTOR, number)] = like.new_empty(like.size(0), expr.width)
        self._run(tensors, lambda made: self.kernels.backward(made, steps, reverse, self.tiling(True)))

    def _run(self, tensors: list[Tensors], run: Callable[[list[Tensors]], None]) -> None:
        made: list[Tensors] = []
        for mine in tensors:
            same: dict[int, Tensor] = {}
            for argument, tensor in mine.items():
                keeps = argument.is_float32 or argument.is_like_start or not tensor.is_floating_point()
                if tensor.data_ptr() not in same or not tensor.numel():
                    same[tensor.data_ptr()] = tensor if keeps else tensor.to(self.dtype)
            made.append({argument: same.get(tensor.data_ptr(), tensor) for argument, tensor in mine.items()})
        run(made)
        for mine, theirs in zip(tensors, made, strict=True):
            for argument, tensor in mine.items():
                if theirs[argument] is not tensor:
                    tensor.copy_(theirs[argument])


@pytest.fixture
def on_cpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Choose the tiling and the type, after which the engine runs persistent kernels."""
    launched: list[Launch] = []

    def launch(made: Launch, device: torch.device) -> None:
        launched.append(made)
        library = _library(made.text, made.name, tmp_path)
        assert library.run(ctypes.byref(made.call), *made.grid, made.threads, ctypes.c_long(made.shared_bytes)) == 0

    def choose(forward: Tiling, backward: Tiling, dtype: torch.dtype = torch.bfloat16) -> None:
        backends: dict[int, OnCPU] = {}

        def backend(plan: Kernels, like: Tensor) -> OnCPU:
            return backends.setdefault(plan.number, OnCPU(plan, lambda back: backward if back else forward, dtype))

        monkeypatch.setattr(Kernels, "backend", backend)

    monkeypatch.setattr(persistent, "launch", launch)
    monkeypatch.setattr(rows, "MIN_PADDING_SHARE", 1.0)  # only on a CPU is padding left out of the products
    yield choose
    assert {made.name for made in launched} == {"forward", "backward"}


def check(
    choice: CellChoice,
    x: Tensor,
    lengths: Tensor | None = None,
    *,
    bidirectional: bool = False,
    tolerance: float = 0.02,
    **more: Any,
) -> None:
    torch.manual_seed(1)
    tried = RNN(choice, x.size(2), H, bidirectional=bidirectional, backend="engine")
    plain = RNN(choice, x.size(2), H, bidirectional=bidirectional, backend="reference")
    plain.load_state_dict(tried.state_dict())
    state = map_state(torch.rand_like, plain.initial_state(x.size(0), x))
    found, expected = (measure(rnn, x, lengths, state, **more) for rnn in (tried, plain))
    for name, right in expected.items():
        error = (found[name] - right).norm() / right.norm().clamp(min=1e-3)
        assert error < tolerance, f"{name} is off by {error:.3g}"


LENGTHS = torch.tensor([5, 2, 0, 4, 1, 5, 3, 5, 1, 2])
PLAIN = Tiling(16, 8, 1, 4), Tiling(16, 8, 4, 1)


class Traces(NamedTuple):
    fast: Tensor
    slow: Tensor


class Mixed(Cell):
    """Two states in one product with a bias, the left side made of them and of a vector, the output beside a state."""

    state_type = Traces

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.from_input = nn.Linear(input_size, hidden_size)
        self.from_state = nn.Linear(2 * hidden_size, 2 * hidden_size)
        self.decay = nn.Parameter(torch.linspace(0.1, 0.9, hidden_size))

    def step(self, x: Tensor, state: Traces) -> tuple[Tensor, Traces]:
        gate, candidate = self.from_state(torch.cat((torch.tanh(state.fast), self.decay * state.slow), -1)).chunk(2, -1)
        drive = self.from_input(x)
        fast = torch.sigmoid(gate + drive) * state.fast + torch.tanh(candidate)
        # Both branches meet where fast is 0: rounding may take either, and must not matter.
        slow = torch.where(fast > 0, self.decay * state.slow + (1 - self.decay) * fast, self.decay * state.slow)
        return fast * torch.sigmoid(drive), Traces(fast, slow)


CELLS: list[CellChoice] = [
    "elman", "lstm", "peephole_lstm", "coupled_lstm", "gru_reset_after", "janet", "s_lstm",
    {"kind": "s_lstm", "heads": 2}, {"kind": "elman", "activation": "relu"}, Mixed,
]  # fmt: skip


@pytest.mark.parametrize("lengths", [None, LENGTHS], ids=["equal", "lengths"])
@pytest.mark.parametrize("choice", CELLS, ids=str)
def test_it_equals_the_reference(choice: CellChoice, lengths: Tensor | None, on_cpu: Callable[..., None]) -> None:
    on_cpu(*PLAIN, torch.float16)  # in bfloat16 a relu is more often on its other side
    check(choice, torch.randn(10, 5, 5), lengths)


@pytest.mark.parametrize(
    "tilings",
    [
        (Tiling(8, 8, 1, 1), Tiling(8, 16, 2, 1)),
        (Tiling(32, 16, 1, 4), Tiling(32, 8, 4, 2)),
        (Tiling(16, 32, 1, 2), Tiling(16, 32, 2, 1)),
        (Tiling(32, 8, 1, 1), Tiling(8, 8, 3, 1)),
    ],
    ids=str,
)
def test_every_tiling(tilings: tuple[Tiling, Tiling], on_cpu: Callable[..., None]) -> None:
    """Idle threads and several rows of a thread; warps without a part of the depth, and columns of no unit."""
    on_cpu(*tilings)
    check("coupled_lstm", torch.randn(10, 4, 5), LENGTHS.clamp(max=4))


def test_both_directions_and_resets(on_cpu: Callable[..., None]) -> None:
    on_cpu(*PLAIN)
    check("lstm", torch.randn(10, 5, 5), LENGTHS, bidirectional=True)
    check("gru_reset_after", torch.randn(3, 6, 5), None, bidirectional=True, resets=torch.rand(3, 6) < 0.3)


def test_fp16_is_closer(on_cpu: Callable[..., None]) -> None:
    on_cpu(*PLAIN, torch.float16)
    check("lstm", torch.randn(3, 5, 5), tolerance=0.003)


def test_numbers_that_are_no_numbers_do_not_block(on_cpu: Callable[..., None]) -> None:
    """The mark of an empty place is a NaN too, but one that no rounding gives."""
    on_cpu(*PLAIN)
    rnn = RNN("lstm", 5, H, backend="engine")
    x = torch.randn(2, 4, 5)
    x[0, 1, 2] = torch.nan
    output, _ = rnn(x)
    output.sum().backward()
    assert output[0, 1:].isnan().all()
    assert not output[1].isnan().any()


@pytest.mark.parametrize(
    ("choice", "hidden_size", "reason"),
    [("gru", 32, "more than one product"), ("lstm", 24, "not a multiple of 32"), ("min_gru", 32, "no product")],
)
def test_what_it_cannot_run(choice: str, hidden_size: int, reason: str) -> None:
    plan = plan_of(RNN(choice, 5, hidden_size).layers[0].cells[0])
    assert isinstance(plan, Plan)
    assert plan.kernels is not None
    with pytest.raises(Unsuited, match=reason):
        PersistentKernels(plan.kernels)
