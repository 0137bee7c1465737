"""Cells of users: built and tried on a few rows, so that a mistake is reported with its line in their file."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from weft.errors import ConfigError, WeftError, show_path
from weft.nn.recurrent.attending import AttendingCell
from weft.nn.recurrent.cell import Cell
from weft.nn.state import State, leaves_of

TRIAL_ROWS = 3
"""Rows of the batch that a step is tried on."""

STEP = "a step is step(self, x, state) and returns (output, state)"

IN_PLACE = "modified by an inplace operation"
"""Part of autograd's error about a tensor that was changed after it was saved for a gradient."""

NEW_TENSOR = "make a new one: h = h + x, not h += x or h.add_(x)"


def build_own(make: Callable[..., Any], input_size: int, hidden_size: int, options: dict[str, Any]) -> Cell:
    """The cell that a person's class or function makes, after one step on a few rows of numbers."""
    try:
        cell = make(input_size, hidden_size, **options)
    except WeftError:
        raise
    except Exception as error:
        raise _mistake(error, make, f"{_name(make)}({input_size}, {hidden_size})") from error
    if not isinstance(cell, Cell):
        what = f"{_name(make)} makes {type(cell).__name__}, not a cell"
        raise ConfigError(what, where=_definition(make), cure="a cell is a subclass of weft.nn.Cell")
    if not hasattr(cell, "output_size"):
        cure = "call super().__init__(input_size, hidden_size) first"
        raise ConfigError(f"{_name(make)} has no sizes", where=_definition(type(cell).__init__), cure=cure)
    if isinstance(cell, AttendingCell):
        what = f"{type(cell).__name__} attends to a source, which no layer of a configured model has"
        raise ConfigError(what, where=_definition(type(cell)), cure='use a plain cell, and context = "attention"')
    if any(tensor.is_meta for tensor in (*cell.parameters(), *cell.buffers())):
        return cell  # an outline without numbers
    with torch.random.fork_rng(devices=[]), torch.enable_grad():  # the random numbers of training stay what they were
        _try(cell)
    return cell


def _try(cell: Cell) -> None:
    step, name = type(cell).step, type(cell).__name__
    if step is Cell.step and "step" not in vars(cell):
        raise ConfigError(f"{name} has no step", where=_definition(type(cell)), cure=STEP)
    like = next((tensor for tensor in cell.parameters() if tensor.is_floating_point()), torch.empty(0))
    x = torch.linspace(-1.0, 1.0, TRIAL_ROWS * cell.input_size).view(TRIAL_ROWS, -1).to(like.dtype)
    try:
        state = cell.zero_state(TRIAL_ROWS, x)
        before = _versions(x, state)
        found = cell.step(x, state)
    except Exception as error:
        given = f"x was {_shapes(x)}" + (f", the state {_shapes(state)}" if "state" in vars() else "")
        raise _mistake(error, step, f"{name}.step", cure=_cure(error, given)) from error
    where = _definition(step)
    output, after = check_step(cell, found, TRIAL_ROWS)
    if not _is_state(after) or _shapes(after) != _shapes(state):
        shown = _shapes(after) if _is_state(after) else type(after).__name__
        what = f"{name}.step returns a state of {shown}, where it was given {_shapes(state)}"
        raise ConfigError(what, where=where, cure="every step returns a state of the same shapes")
    if (changed := _versions(x, state)) != before:
        what = f"{name}.step changes {'its input' if changed[0] != before[0] else 'the state'} in place"
        raise ConfigError(what, where=where, cure=NEW_TENSOR)
    _try_backward(cell, [output, *leaves_of(after)], where)


def check_step(cell: Cell, found: Any, rows: int) -> tuple[Tensor, State]:
    """Return the output and the state that a step returned for that many rows; raise if the output has another form."""
    if isinstance(found, tuple | list) and len(found) == 2 and isinstance(found[0], Tensor):
        output, after = found
        if output.shape == (rows, cell.output_size):
            return output, after
        what = f"returns an output of {_shapes(output)}, where {(rows, cell.output_size)} is expected"
        cure = "its width is hidden_size, or what __init__ sets as self.output_size"
    else:
        shown = f"{len(found)} values" if isinstance(found, tuple | list) else type(found).__name__
        what, cure = f"returns {shown}, not (output, state)", STEP
    raise ConfigError(f"{type(cell).__name__}.step {what}", where=_definition(type(cell).step), cure=cure)


def _try_backward(cell: Cell, found: list[Tensor], where: str | None) -> None:
    """A gradient through the step, which no parameter keeps."""
    ends = [tensor for tensor in found if tensor.requires_grad]
    learned = [tensor for tensor in cell.parameters() if tensor.requires_grad]
    if not ends or not learned:
        return
    try:
        torch.autograd.grad([end.sum() for end in ends], learned, allow_unused=True)
    except RuntimeError as error:
        if IN_PLACE in str(error):
            what = f"{type(cell).__name__}.step changes a tensor in place that its gradient needs"
            raise ConfigError(what, where=where, cure=NEW_TENSOR) from error
        raise _mistake(error, type(cell).step, f"the gradient of {type(cell).__name__}.step") from error


def _versions(x: Tensor, state: State) -> list[int]:
    """How often each tensor was changed in place."""
    return [tensor._version for tensor in (x, *leaves_of(state))]


def _mistake(error: Exception, code: Any, doing: str, *, cure: str | None = None) -> ConfigError:
    """The error with its line in the file of the code that was called."""
    file = _file(code)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    where = f"{show_path(file)}:{lines[-1]}" if file and lines else _definition(code)
    said = next(iter(str(error).splitlines()), "")
    return ConfigError(f"{doing}: {type(error).__name__}: {said}", where=where, cure=cure)


def _cure(error: Exception, given: str) -> str:
    if "Boolean value of Tensor" in str(error):
        return "a choice by values is torch.where(condition, a, b)"
    return given


def _definition(code: Any) -> str | None:
    """FILE:LINE where a class or function is defined; None for one without a file."""
    try:
        return f"{show_path(_file(code) or '')}:{inspect.getsourcelines(inspect.unwrap(code))[1]}"
    except (OSError, TypeError):
        return None


def _file(code: Any) -> str | None:
    try:
        return inspect.getsourcefile(inspect.unwrap(code))
    except TypeError:
        return None


def _name(make: Any) -> str:
    return getattr(make, "__name__", type(make).__name__)


def _is_state(state: State) -> bool:
    if isinstance(state, tuple):
        return all(_is_state(part) for part in state)
    return state is None or isinstance(state, Tensor)


def _shapes(state: State) -> str:
    """The shape of a tensor, or of each tensor of a state."""
    return " and ".join(str(tuple(part.shape)) for part in leaves_of(state)) or "nothing"
