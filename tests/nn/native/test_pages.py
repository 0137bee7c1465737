"""Room on large pages: zeros like any others."""

from __future__ import annotations

import mmap

import pytest
import torch

from weft.nn.native import pages

LARGE = pages.LEAST // 4 + 5


@pytest.mark.parametrize("count", [0, 3, LARGE])
def test_zeros_that_can_be_written(count: int) -> None:
    found = pages.zeros(count, torch.empty(0))
    assert found.shape == (count,)
    assert found.dtype == torch.float32
    assert not found.any()
    found += 1
    assert found.sum() == count


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="this system has no large pages")
def test_many_begin_on_a_page_of_their_own() -> None:
    found = [pages.zeros(LARGE, torch.empty(0)) for _ in range(3)]
    assert [one.data_ptr() % pages.PAGE for one in found] == [0, 0, 0]
    found[0].fill_(1)
    assert not found[1].any()


def test_a_system_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mmap, "MADV_HUGEPAGE", raising=False)
    assert not pages.zeros(LARGE, torch.empty(0)).any()
