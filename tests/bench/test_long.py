"""The long table: all contenders compute the same recurrence, and what cannot run is named with the reason."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

from weft.bench import Size, long_cases, long_remarks, measure_long, tabulate_long
from weft.bench.recurrence.long import CONTENDERS, Unavailable

CPU = torch.device("cpu")
ON_CPU = ("weft", "weft loop", "weft scan", "torch scan")


@pytest.mark.parametrize("name", ON_CPU)
def test_a_contender_gives_the_loop_as_it_is_written(name: str) -> None:
    size = Size(2, 37, 5)
    a, b = (torch.rand(size, requires_grad=True) for _ in range(2))
    h, states = torch.zeros(2, 5), []
    for step in range(size.time):
        h = a[:, step] * h + b[:, step]
        states.append(h)
    expected = torch.stack(states, dim=1)
    found = CONTENDERS[name](size, CPU)(a, b)
    assert_close(found, expected, rtol=1e-4, atol=1e-5)
    weight = torch.randn(size)
    assert_close(*(torch.autograd.grad(side, (a, b), weight) for side in (found, expected)), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(CONTENDERS.keys() - set(ON_CPU)))
def test_others_need_a_gpu_or_are_not_installed(name: str) -> None:
    with pytest.raises(Unavailable, match="needs a GPU"):
        CONTENDERS[name](Size(1, 8, 4), CPU)


def test_the_table_has_a_column_for_each_that_ran_and_a_line_for_each_that_did_not() -> None:
    cases = long_cases(["1,16,4", "2,8,4"], ["float32"], "cpu")
    assert [(size, dtype, place.type) for size, dtype, place in cases] == [
        (Size(1, 16, 4), "float32", "cpu"),
        (Size(2, 8, 4), "float32", "cpu"),
    ]
    rows = [measure_long(size, dtype, place, repeats=1) for size, dtype, place in cases]
    headings, lines = tabulate_long(rows)
    assert headings == ["B,T,D", "dtype", *(f"{name} ms" for name in (*ON_CPU, "limit"))]
    assert [line[:2] for line in lines] == [["1,16,4", "float32"], ["2,8,4", "float32"]]
    assert all(float(figure) > 0 for line in lines for figure in line[2:])
    assert long_remarks(rows) == [
        "without accelerated-scan: it needs a GPU with CUDA",
        "without fla hgrn: it needs a GPU with CUDA",
    ]
