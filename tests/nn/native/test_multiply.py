"""Products of rows at addresses: what torch's product gives, wherever the rows stand and whoever takes them."""

from __future__ import annotations

import ctypes
import itertools
import subprocess
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.nn.native import compiler, product
from weft.nn.native.product import addresses, multiply

SIZES = list(itertools.product([0, 1, 2, 5, 25, 131], [1, 19, 40], [1, 16, 33, 70]))


pytestmark = pytest.mark.usefixtures("a_compiler")


def multiplied(x: Tensor, weight: Tensor) -> Tensor:
    made = torch.full((len(x), weight.size(1)), torch.nan)
    multiply(addresses(x), weight, addresses(made))
    return made


def assert_all_sizes() -> None:
    torch.manual_seed(0)
    for rows, depth, width in SIZES:
        x, weight = torch.randn(rows, depth), torch.randn(depth, width)
        exact = (x.double() @ weight.double()).float()
        assert_close(multiplied(x, weight), exact, rtol=1e-5, atol=1e-5)
        assert torch.equal(multiplied(x, weight.t().contiguous().t()), multiplied(x, weight))


def test_every_size_is_what_torch_gives() -> None:
    assert_all_sizes()


@pytest.mark.parametrize("flags", [["-mno-avx"], ["-mno-avx512f"]], ids=["sse", "avx"])
def test_narrower_vectors_give_the_same(flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not compiler.OPTIONS[-1].startswith("-mprefer"):
        pytest.skip("flags of another processor")
    source, made = tmp_path / "source.c", tmp_path / "made.so"
    source.write_text("\n".join(compiler.read_source("weft.nn.native", name) for name in ("arithmetic.c", "product.c")))
    subprocess.run([*compiler.find_compiler(), *compiler.OPTIONS, *flags, "-o", made, source, "-lm"], check=True)
    library = ctypes.CDLL(str(made))
    monkeypatch.setattr(product, "library", lambda: library)
    assert_all_sizes()


def test_rows_may_stand_anywhere() -> None:
    """Some rows of one tensor, columns of another, written among rows that nobody touches."""
    torch.manual_seed(1)
    wide, weight, chosen = torch.randn(30, 50), torch.randn(20, 33), torch.tensor([7, 3, 29, 0, 11])
    result = torch.full((40, 33), 5.0)
    places = torch.tensor([39, 2, 4, 1, 8])
    multiply(addresses(wide[:, 10:30])[chosen], weight, addresses(result)[places])
    assert_close(result[places], wide[chosen, 10:30] @ weight)
    others = torch.ones(40, dtype=torch.bool).index_fill(0, places, 0)
    assert (result[others] == 5).all()


def test_threads_change_no_bit() -> None:
    x, weight = torch.randn(517, 65), torch.randn(65, 131)
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            results.append(multiplied(x, weight))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])
    assert torch.equal(results[0][100:101], multiplied(x[100:101], weight))
