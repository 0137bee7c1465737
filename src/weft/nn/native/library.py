"""A C library of ours: sources that are compiled together, the structures they share with Python, and calls.

A library repeats the sources of those it builds on, so each package can have its own and nothing is linked twice.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from weft.nn.native.compiler import compile_if_possible, read_source
from weft.nn.native.struct import NativeStruct
from weft.nn.native.threads import parallel


class Source(NamedTuple):
    """A C file of a package, and the structures that are declared before it."""

    package: str
    file: str
    structs: tuple[type[NativeStruct], ...] = ()


ARITHMETIC = Source("weft.nn.native", "arithmetic.c")


class Library:
    """Sources in the order in which they are compiled."""

    def __init__(self, *sources: Source) -> None:
        self.sources = sources

    def text(self) -> str:
        """The whole text that is compiled."""
        parts = ["#include <stddef.h>\n"]
        for source in self.sources:
            parts += [struct.declaration() for struct in source.structs]
            parts += [read_source(source.package, source.file)]
        return "".join(parts)

    def load(self) -> ctypes.CDLL | None:
        """The compiled library, with the layout of its structures checked; None where there is no compiler."""
        return _load(self)

    def serves(self, *tensors: Tensor) -> bool:
        """Whether the C can compute with these tensors: on the CPU, in float32, without gradients, and compiled."""
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return False
        return all(x.device.type == "cpu" and x.dtype == torch.float32 for x in tensors) and _load(self) is not None

    def call(self, name: str, *arguments: Any) -> None:
        """Call a C function with addresses, numbers and structures, then the threads; it returns 0, or 1 where the
        system has no memory, which becomes a MemoryError."""
        if self.function(name)(*map(c_argument, arguments), *_threads()):
            raise MemoryError(f"{name} found no memory for its buffers: use a smaller batch or shorter texts")

    def shared_number(self, name: str, *arguments: Any) -> int:
        """Call a C function that takes the threads too and returns a long."""
        return self.number(name, *arguments, *_threads())

    def number(self, name: str, *arguments: Any) -> int:
        """Call a C function that returns a long."""
        function = self.function(name)
        function.restype = ctypes.c_long
        return int(function(*map(c_argument, arguments)))

    def function(self, name: str) -> Any:
        """The C function; it takes c_long, c_float and pointers, as `c_argument` makes them."""
        loaded = _load(self)
        assert loaded is not None
        return getattr(loaded, name)


@cache
def _load(library: Library) -> ctypes.CDLL | None:
    loaded = compile_if_possible(library.text())
    if loaded is not None:
        for source in library.sources:
            for struct in source.structs:
                struct.check_layout(loaded)
    return loaded


def _threads() -> tuple[Any, ...]:
    return ctypes.c_long(torch.get_num_threads()), parallel()


def c_argument(value: Any) -> Any:
    """A tensor as its address, whole numbers as long, reals as float, a structure by its address."""
    if isinstance(value, Tensor):
        return ctypes.c_void_p(value.data_ptr())
    if isinstance(value, NativeStruct):
        return ctypes.byref(value)
    if value is None:
        return ctypes.c_void_p(None)
    if isinstance(value, int | float):
        return ctypes.c_float(value) if isinstance(value, float) else ctypes.c_long(value)
    return value
