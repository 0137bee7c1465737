"""The long table: all contenders compute the same recurrence, and what cannot run is named with the reason."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.bench import Size, long_cases, long_remarks, measure_long, tabulate_long
from weft.bench.recurrence import long
from weft.bench.recurrence.long import CONTENDERS, Unavailable, recurrence

CPU = torch.device("cpu")
ON_CPU = ("weft", "weft loop", "weft scan", "torch scan")
ELSEWHERE = tuple(name for name in CONTENDERS if name not in ON_CPU)


def loop(a: Tensor, b: Tensor, *, dim: int = 1) -> Tensor:
    h, states = torch.zeros_like(b.select(dim, 0)), []
    for slope, new in zip(a.unbind(dim), b.unbind(dim), strict=True):
        h = slope * h + new
        states.append(h)
    return torch.stack(states, dim)


OTHERS = SimpleNamespace(
    scan=lambda gates, tokens: loop(gates, tokens, dim=2),
    chunk_hgrn=lambda x, g: (loop(g.exp(), x), None),
    fused_recurrent_hgrn=lambda x, g: (loop(g.exp(), x), None),
)
"""What accelerated-scan and flash-linear-attention compute, by the contracts of their functions."""


def test_the_reference_is_the_loop_and_its_gradients() -> None:
    a, b = (torch.rand(2, 7, 3, requires_grad=True) for _ in range(2))
    weight = torch.randn(2, 7, 3)
    h = loop(a, b)
    with torch.no_grad():
        found = recurrence(a, b, weight)
    assert_close(found, (h, *torch.autograd.grad(h, (a, b), weight)))


@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_every_contender_computes_the_recurrence(monkeypatch: pytest.MonkeyPatch, dtype: str) -> None:
    monkeypatch.setattr(long, "_installed", lambda module, package, device: OTHERS)
    figures = measure_long(Size(2, 32, 5), dtype, CPU, repeats=1)
    assert figures.missing == {}
    assert figures.seconds.keys() == {*CONTENDERS, "limit"}


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda x, g: (loop(g, x), None), "h is not"),
        (lambda x, g: (loop(g.exp(), x.detach() + 0 * x), None), "the gradient of b is not"),
        (lambda x, g: (loop(g.exp().detach() + 0 * g, x), None), "the gradient of a is not"),
    ],
)
def test_who_computes_something_else_has_no_time(monkeypatch: pytest.MonkeyPatch, wrong: object, what: str) -> None:
    monkeypatch.setattr(long, "_installed", lambda *_: SimpleNamespace(**{**vars(OTHERS), "chunk_hgrn": wrong}))
    figures = measure_long(Size(2, 32, 5), "float32", CPU, repeats=1)
    assert figures.missing.keys() == {"fla hgrn chunk"}
    assert figures.missing["fla hgrn chunk"].startswith(f"{what} that of the recurrence: it is ")


def test_a_fault_of_other_software_is_named_and_the_others_are_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(x: Tensor, g: Tensor) -> None:
        raise KeyError("no kernel\nfor this")

    monkeypatch.setattr(long, "_installed", lambda *_: SimpleNamespace(**{**vars(OTHERS), "chunk_hgrn": broken}))
    figures = measure_long(Size(1, 32, 2), "float32", CPU, repeats=1)
    assert figures.missing == {"fla hgrn chunk": r"KeyError: 'no kernel\nfor this'"}
    assert "weft" in figures.seconds


@pytest.mark.parametrize("name", ELSEWHERE)
def test_others_need_a_gpu(name: str) -> None:
    with pytest.raises(Unavailable, match="needs a GPU"):
        CONTENDERS[name](Size(1, 32, 4), CPU)


@pytest.mark.parametrize("time", [16, 48, 131_072])
def test_the_kernel_of_warps_says_which_lengths_it_takes(time: int) -> None:
    with pytest.raises(Unavailable, match="a power of two of steps, from 32 to 65536"):
        CONTENDERS["accelerated-scan warp"](Size(1, time, 4), CPU)


def test_the_table_has_a_column_for_each_that_ran_and_a_line_for_each_that_did_not() -> None:
    cases = long_cases(["1,32,4", "2,8,4"], ["float32"], "cpu")
    assert [(size, dtype, place.type) for size, dtype, place in cases] == [
        (Size(1, 32, 4), "float32", "cpu"),
        (Size(2, 8, 4), "float32", "cpu"),
    ]
    rows = [measure_long(size, dtype, place, repeats=1) for size, dtype, place in cases]
    headings, lines = tabulate_long(rows)
    assert headings == [
        "B,T,D", "dtype", "weft ms", "limit ms", "weft / limit",
        "weft loop ms", "ratio", "weft scan ms", "ratio", "torch scan ms", "ratio",
    ]  # fmt: skip
    assert [line[:2] for line in lines] == [["1,32,4", "float32"], ["2,8,4", "float32"]]
    assert all(float(figure.removesuffix("×")) > 0 for line in lines for figure in line[2:])
    for row, line in zip(rows, lines, strict=True):
        assert line[4] == f"{row.seconds['weft'] / row.seconds['limit']:.2f}×"
        assert line[-1] == f"{row.seconds['torch scan'] / row.seconds['weft']:.2f}×"
    assert long_remarks(rows) == [
        "limit: copies of as many numbers as a pass must read and write; ratio: the time before it ÷ weft's",
        "without accelerated-scan warp: it needs a GPU with CUDA (at 1,32,4 float32)",
        *(f"without {name}: it needs a GPU with CUDA" for name in ELSEWHERE[1:]),
        "without accelerated-scan warp: it takes a power of two of steps, from 32 to 65536 (at 2,8,4 float32)",
    ]
