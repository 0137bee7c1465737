"""The weights of a program: the same memory is the same array in all of its graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.export.graph.graph import Kind


class Weights:
    """The arrays of a program: the same memory is the same array."""

    def __init__(self) -> None:
        self._arrays: dict[Any, NDArray[Any]] = {}
        self._kept: list[Tensor] = []
        """Tensors whose addresses are keys, so that no other tensor takes their place."""

    def of(self, tensor: Tensor) -> NDArray[Any]:
        tensor = tensor.detach()
        key = (tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), tensor.dtype)
        if key not in self._arrays or not tensor.numel():
            self._kept.append(tensor)
            self._arrays[key] = as_array(tensor)
        return self._arrays[key]

    def number(self, value: float, dtype: str) -> NDArray[Any]:
        """A number as an array without axes."""
        key = (dtype, repr(value))
        if key not in self._arrays:
            self._arrays[key] = np.array(value, dtype)
        return self._arrays[key]


def kind_of(array: NDArray[Any]) -> Kind:
    """The kind of an array's values."""
    if array.dtype == np.bool_:
        return "bool"
    return "float" if np.issubdtype(array.dtype, np.floating) else "int"


def as_array(tensor: Tensor) -> NDArray[Any]:
    tensor = tensor.cpu()
    if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    elif not tensor.is_floating_point() and tensor.dtype != torch.bool:
        tensor = tensor.long()
    return np.ascontiguousarray(tensor.contiguous().numpy()).reshape(tuple(tensor.shape))
