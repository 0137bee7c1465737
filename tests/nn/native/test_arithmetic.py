"""The matrix product inside the loop: every number of rows, over every width, is what each row gives alone."""

from __future__ import annotations

import ctypes
from functools import cache

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from weft.nn.native import compiler
from weft.nn.recurrent.engine.c_source import BASE

DEPTH = 19
ENTRY = """
void entry(long rows, const float *a, const float *b, long depth, long width, const float *bias, float *c) {
    float *packed = calloc(depth * padded(width), sizeof(float)), *add = calloc(padded(width), sizeof(float));
    float *made = calloc(rows * padded(width) + 1, sizeof(float));
    const float **left = malloc(sizeof(float *) * (rows + 1));
    for (long i = 0; i < rows; i++) left[i] = a + i * depth;
    if (bias) memcpy(add, bias, sizeof(float) * width);
    pack(b, width, 1, depth, width, packed);
    product(rows, left, packed, depth, width, bias ? add : 0, made);
    for (long i = 0; i < rows; i++) memcpy(c + i * width, made + i * padded(width), sizeof(float) * width);
    free(left); free(made); free(add); free(packed);
}
"""


@cache
def library() -> ctypes.CDLL:
    return compiler.compile_library(BASE.text() + ENTRY)


def multiply(a: Tensor, b: Tensor, bias: Tensor | None) -> Tensor:
    """a (rows, depth), b (depth, width), bias (width,) -> (rows, width)."""
    a, made = a.contiguous(), torch.full((len(a), b.size(1)), torch.nan)
    sizes = [ctypes.c_long(size) for size in (len(a), *b.shape)]
    places = [ctypes.c_void_p(None if t is None else t.data_ptr()) for t in (a, b, bias, made)]
    library().entry(sizes[0], places[0], places[1], sizes[1], sizes[2], places[2], places[3])
    return made


pytestmark = pytest.mark.usefixtures("a_compiler")


@pytest.mark.parametrize("biased", [False, True], ids=["bare", "biased"])
@pytest.mark.parametrize("width", [1, 8, 31, 32, 33, 64, 97])
def test_rows_do_not_depend_on_how_many_there_are(width: int, biased: bool) -> None:
    """To the last bit: tiles of every shape add up in the same order."""
    a, b = torch.randn(26, DEPTH), torch.randn(DEPTH, width)
    bias = torch.randn(width) if biased else None
    alone = torch.cat([multiply(row, b, bias) for row in a.split(1)])
    exact = a.double() @ b.double() + (0 if bias is None else bias.double())
    assert_close(alone.double(), exact, rtol=1e-5, atol=1e-5)
    for rows in range(len(a) + 1):
        assert torch.equal(multiply(a[:rows], b, bias), alone[:rows]), f"{rows} rows"
