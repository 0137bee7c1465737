"""The plans of cells, made on first use and again when a cell has changed."""

from __future__ import annotations

from typing import Any, Final
from weakref import WeakKeyDictionary

import torch
from torch import nn

from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.engine.plan import Plan, make_plan
from weft.nn.recurrent.engine.trace import Untraceable

INTERNAL: Final = frozenset(vars(nn.Module())) - {"training"}
HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

_plans: WeakKeyDictionary[Cell, dict[object, Plan | str]] = WeakKeyDictionary()


def plan_of(cell: Cell) -> Plan | str:
    """The plan of a cell as it is now, made on first use; or why there is none."""
    if _is_hooked(cell):
        return "it has hooks, which must run at every step"
    plans = _plans.get(cell)
    if plans is None:
        plans = _plans[cell] = {}
    key = _fingerprint(cell)
    if key not in plans:
        try:
            plans[key] = make_plan(cell, dtype_of(cell))
        except Untraceable as error:
            plans[key] = str(error)
    return plans[key]


def dtype_of(cell: Cell) -> torch.dtype:
    """The type of a cell's numbers; for a cell without numbers, the best type for the kernels."""
    for tensor in (*cell.parameters(), *cell.buffers()):
        if tensor.is_floating_point():
            return tensor.dtype
    return torch.float32


def _is_hooked(module: nn.Module) -> bool:
    values = vars(module)
    return any(values[name] for name in HOOKS) or any(
        _is_hooked(child) for child in values["_modules"].values() if child
    )


def _fingerprint(module: nn.Module) -> tuple[Any, ...]:
    """Everything that a step may depend on beside the values of tensors: attributes, shapes, types, parts."""
    values = vars(module)
    tensors = (*values["_parameters"].items(), *values["_buffers"].items())
    return (
        type(module),
        tuple((name, None if tensor is None else (tensor.shape, tensor.dtype)) for name, tensor in tensors),
        tuple((name, _plain(value)) for name, value in values.items() if name not in INTERNAL),
        tuple(_fingerprint(child) for child in values["_modules"].values() if child is not None),
    )


def _plain(value: Any) -> Any:
    """A value that can be compared with a later one; of an object only which one it is."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_plain(part) for part in value)
    if isinstance(value, dict):
        return tuple((_plain(name), _plain(part)) for name, part in value.items())
    return id(value)
