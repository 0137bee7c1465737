"""product.c from Python: products of many rows that may stand anywhere in memory, in float32.

Rows are given by their addresses, (N,) of int64: what they belong to must live as long as the call. That makes a choice
of rows, or rows from several tensors, as cheap as a whole matrix.
"""

from __future__ import annotations

import ctypes
from functools import cache

import torch
from torch import Tensor

from weft.nn.native.compiler import compile_if_possible, read_source
from weft.nn.native.threads import parallel


def addresses(matrix: Tensor) -> Tensor:
    """Where each row of a matrix (N, n) begins; the numbers of a row must stand side by side."""
    first, apart = matrix.data_ptr(), max(1, matrix.stride(0)) * matrix.element_size()
    return torch.arange(first, first + matrix.size(0) * apart, apart, device=matrix.device)


def multiply(left: Tensor, weight: Tensor, to: Tensor) -> None:
    """Rows at `left` (N,) of n numbers, each @ weight (n, m), laid out in any way -> rows at `to` (N,) of m numbers."""
    sizes = [left.numel(), *weight.shape, *weight.stride(), torch.get_num_threads()]
    places = [ctypes.c_void_p(tensor.data_ptr()) for tensor in (left, weight, to)]
    found = library()
    assert found is not None
    found.multiply(*places, *map(ctypes.c_long, sizes), parallel())


@cache
def library() -> ctypes.CDLL | None:
    """The compiled text, or None where there is no compiler."""
    return compile_if_possible("".join(read_source("weft.nn.native", name) for name in ("arithmetic.c", "product.c")))
