"""The plan of a cell as it is now, cached."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from weft.nn.fingerprint import fingerprint, is_hooked
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.engine.plan import Plan, make_plan
from weft.nn.recurrent.engine.trace import Untraceable

_plans: WeakKeyDictionary[Cell, dict[object, Plan | str]] = WeakKeyDictionary()


def plan_of(cell: Cell) -> Plan | str:
    """The plan of a cell as it is now, made on first use; or why there is none."""
    if is_hooked(cell):
        return "it has hooks, which want to see every step"
    plans = _plans.get(cell)
    if plans is None:
        plans = _plans[cell] = {}
    key = fingerprint(cell)
    if key not in plans:
        try:
            plans[key] = make_plan(cell, dtype_of(cell))
        except Untraceable as error:
            plans[key] = str(error)
    return plans[key]


def dtype_of(cell: Cell) -> torch.dtype:
    """The type of a cell's numbers; of a cell that has none, what the kernels like best."""
    for table in ("_parameters", "_buffers"):
        for tensor in _tensors(cell, table):
            if tensor is not None and tensor.is_floating_point():
                return tensor.dtype
    return torch.float32


def _tensors(module: nn.Module, table: str) -> Iterator[Tensor | None]:
    """All parameters, or all buffers: many times faster than `parameters()`, and this is asked in every call."""
    yield from vars(module)[table].values()
    for part in vars(module)["_modules"].values():
        if part is not None:
            yield from _tensors(part, table)
