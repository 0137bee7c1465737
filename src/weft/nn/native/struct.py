"""Structures that Python fills and C reads: the C declaration is generated from the fields that Python names.

    class Norm(NativeStruct):
        c_name = "norm_t"
        _fields_ = (("weight", ConstFloats), ("bias", ConstFloats))

    Norm(weight=weight, bias=bias)      # tensors become addresses, and stay alive as long as the structure

The compiler may still lay a structure out in its own way (CC="gcc -fpack-struct"), so a library exports the size and
the offsets of each structure, and `check_layout` compares them with Python's when the library is loaded.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, ClassVar, Final

from torch import Tensor


class Pointer(ctypes.c_void_p):
    """The address of C values of type `target`."""

    target: ClassVar[str]


class Floats(Pointer):
    target = "float"


class ConstFloats(Pointer):
    target = "const float"


class ConstInts(Pointer):
    target = "const int"


class Longs(Pointer):
    target = "long"


class ConstLongs(Pointer):
    target = "const long"


class Bytes(Pointer):
    target = "unsigned char"


class ConstBytes(Pointer):
    target = "const unsigned char"


class FloatsTable(Pointer):
    """The address of a row of addresses (see `address_table`)."""

    target = "float *const"


class ConstFloatsTable(Pointer):
    """A FloatsTable whose numbers the C only reads."""

    target = "const float *const"


SCALARS: Final[dict[Any, str]] = {ctypes.c_long: "long", ctypes.c_float: "float", ctypes.c_int: "int"}


class NativeStruct(ctypes.Structure):
    """A C structure called `c_name`. Every field is given by name: a number, a tensor, a structure, or None (NULL)."""

    c_name: ClassVar[str]

    def __init__(self, **values: Any) -> None:
        names = _field_names(type(self))
        if values.keys() != names.keys():
            wrong = sorted(values.keys() ^ names.keys())
            raise TypeError(f"{type(self).__name__}: fields missing or unknown: {', '.join(wrong)}")
        self.held = values  # an address keeps nothing alive
        # Structures are made for every step of a decoder: numbers need no call, and ctypes is faster by position.
        super().__init__(
            *[
                value if value is None or (kind := type(value)) is int or kind is float else _field_value(value)
                for value in map(values.__getitem__, names)
            ]
        )

    @classmethod
    def declaration(cls) -> str:
        """The C type, and the exported function that returns its size and the offsets of its fields."""
        fields = "".join(f"    {_declare(kind, name)};\n" for name, kind in _fields(cls))
        numbers = [f"sizeof({cls.c_name})", *(f"offsetof({cls.c_name}, {name})" for name, _ in _fields(cls))]
        return (
            f"typedef struct {{\n{fields}}} {cls.c_name};\n"
            f"const long *{cls.c_name}_layout(void) {{\n"
            f"    static const long layout[] = {{{', '.join(numbers)}}};\n    return layout;\n}}\n"
        )

    @classmethod
    def check_layout(cls, library: ctypes.CDLL) -> None:
        """Raise RuntimeError if the compiled library lays the structure out differently from Python."""
        expected = [ctypes.sizeof(cls), *(getattr(cls, name).offset for name, _ in _fields(cls))]
        exported = getattr(library, f"{cls.c_name}_layout")
        exported.restype = ctypes.POINTER(ctypes.c_long)
        found = exported()[: len(expected)]
        if found != expected:
            raise RuntimeError(
                f"the C compiler lays out {cls.c_name} as {found} (size, offsets of its fields), Python as {expected}: "
                "remove options that change the layout of structures, such as -fpack-struct, from CC"
            )


def struct_array(structs: Sequence[NativeStruct]) -> Any:
    """A C array of equal structures, which keeps alive what they point to."""
    array: Any = (type(structs[0]) * len(structs))(*structs)
    array.held = structs
    return array


def address_table(tensors: Sequence[Tensor | None]) -> Any:
    """A C array of the addresses of tensors, which keeps them alive; None is NULL."""
    table: Any = (ctypes.c_void_p * len(tensors))(*(None if x is None else x.data_ptr() for x in tensors))
    table.held = tensors
    return table


def _fields(struct: type[NativeStruct]) -> Iterator[tuple[str, Any]]:
    return ((field[0], field[1]) for field in struct._fields_)


@cache
def _field_names(struct: type[NativeStruct]) -> dict[str, None]:
    """The names in their order, as the keys of a dict, which compare as a set."""
    return {name: None for name, _ in _fields(struct)}


def _field_value(value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.data_ptr()
    if isinstance(value, ctypes.Array) and not issubclass(value._type_, ctypes.Structure):
        return ctypes.addressof(value)
    return value


def _declare(kind: Any, name: str) -> str:
    """A field in C."""
    if kind in SCALARS:
        return f"{SCALARS[kind]} {name}"
    if issubclass(kind, Pointer):
        return f"{kind.target} *{name}"
    if issubclass(kind, NativeStruct):
        return f"{kind.c_name} {name}"
    return f"const {kind._type_.c_name} *{name}"  # ctypes.POINTER(struct)
