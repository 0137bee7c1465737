"""A state that a network is given: checked against its own before any kernel reads it."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor

from weft.errors import DataError
from weft.nn.state import State, rebuild

StateForm: TypeAlias = Any
"""The structure of a state: a `TensorForm` for each tensor, in the tuples of the state. Recursive, like `State`."""

CURE = "a tuple with an entry for each layer, as the network returns it"


class TensorForm(NamedTuple):
    """The shape of a tensor, without its rows."""

    row: tuple[int, ...]


def form_of(state: State) -> StateForm:
    """The form of a state of any number of rows."""
    if isinstance(state, tuple):
        return rebuild(state, [form_of(part) for part in state])
    return state if state is None else TensorForm(tuple(state.shape[1:]))


def fit_state(state: State, form: StateForm, like: Tensor, batch: int) -> State:
    """The state, in the type that a cell computes in; a DataError unless it has this form, these rows and the device of
    `like`. A plain tuple may stand for a named one."""
    if not _fits(state, form, batch):
        what = f"the state is {_describe(state)}, where the network has {_describe_form(form, batch)}"
        raise DataError(what, where="state", cure=CURE)
    return _fit(state, form, like)


def _fits(state: State, form: StateForm, batch: int) -> bool:
    if isinstance(form, TensorForm):
        return isinstance(state, Tensor) and tuple(state.shape) == (batch, *form.row)
    if form is None:
        return state is None
    if not isinstance(state, tuple) or len(state) != len(form):
        return False
    if getattr(state, "_fields", None) not in (None, getattr(form, "_fields", None)):
        return False
    return all(_fits(part, own, batch) for part, own in zip(state, form, strict=True))


def _fit(state: State, form: StateForm, like: Tensor) -> State:
    if form is None:
        return None
    if isinstance(form, TensorForm):
        return _fit_tensor(state, like)
    return rebuild(form, [_fit(part, own, like) for part, own in zip(state, form, strict=True)])


def _fit_tensor(part: Tensor, like: Tensor) -> Tensor:
    """In the type of `like`; beside half precision also in float32, in which kernels carry a state."""
    if part.device != like.device:
        what = f"the state is on {part.device}, the input on {like.device}"
        raise DataError(what, where="state", cure="move the state to the device of the input")
    if part.dtype == like.dtype:
        return part
    if not part.is_floating_point():
        raise DataError(f"the state is of {_name(part.dtype)}", where="state", cure=f"make it {_name(like.dtype)}")
    return part if part.dtype == torch.float32 and like.element_size() < 4 else part.to(like.dtype)


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _describe(state: State) -> str:
    """Shapes in their tuples: (LSTMState(h [2, 4], c [2, 4]),)."""
    if isinstance(state, Tensor):
        return str(list(state.shape))
    if not isinstance(state, tuple):
        return "None" if state is None else f"a {type(state).__name__}"
    parts = [_describe(part) for part in state]
    if (fields := getattr(state, "_fields", None)) is not None:
        return f"{type(state).__name__}({', '.join(map(' '.join, zip(fields, parts, strict=True)))})"
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _describe_form(form: StateForm, batch: int) -> str:
    return _describe(_outline(form, batch))


def _outline(form: StateForm, batch: int) -> State:
    """A state of this form that has no memory."""
    if isinstance(form, TensorForm):
        return torch.empty((batch, *form.row), device="meta")
    return None if form is None else rebuild(form, [_outline(part, batch) for part in form])
