"""The local variables of a cell's methods while they run: the names that its values have in its own equations."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any, NamedTuple

from torch import Tensor

from weft.nn.recurrent.cell import Cell


class Binding(NamedTuple):
    """A local variable that stood for a tensor: `f`, or `gates[1]` and `state.h` for a tensor inside a tuple."""

    name: str
    tensor: Tensor
    inside: bool
    """Whether it stood inside a tuple."""


class LocalNames:
    """Notes each tensor that a local variable of a cell's methods stands for, also where it is assigned anew.

    Methods are those called with the cell, or a cell inside it, as their first argument; names of an inner cell begin
    with its path. Python calls back at each line of these methods and of no other. A debugger or a measurement of
    coverage that was at work before continues afterwards.
    """

    def __init__(self, cell: Cell) -> None:
        self.bindings: list[Binding] = []
        inner = [(path, part) for path, part in cell.named_modules() if isinstance(part, Cell)]
        self._paths = {id(part): f"{path}." if path else "" for path, part in inner}

    def __enter__(self) -> LocalNames:
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sys.settrace(self._before)

    def _enter_frame(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_argcount:
            return None
        path = self._paths.get(id(frame.f_locals.get(code.co_varnames[0])))
        if path is None:
            return None
        known: dict[str, int] = {}

        def note(frame: FrameType, event: str, argument: Any) -> Any:
            for name, value in frame.f_locals.items():
                for binding in _bindings(path + name, value):
                    if known.get(binding.name) != id(binding.tensor):
                        known[binding.name] = id(binding.tensor)
                        self.bindings.append(binding)
            return note

        return note(frame, event, argument)


def _bindings(name: str, value: Any) -> Iterator[Binding]:
    """The tensors of a variable, each with its name."""
    if isinstance(value, Tensor):
        yield Binding(name, value, inside=False)
    elif isinstance(value, tuple | list):
        fields = getattr(value, "_fields", None)
        for number, part in enumerate(value):
            if isinstance(part, Tensor):
                yield Binding(f"{name}.{fields[number]}" if fields else f"{name}[{number}]", part, inside=True)
