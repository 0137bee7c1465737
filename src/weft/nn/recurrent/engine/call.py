"""The arguments of a generated recurrence in C.

tensors: the address of each argument, per direction; sizes: the numbers that the text names n[0], n[1], …; strides of
the weights; reverse: whether a direction runs backwards. Of each row of the batch (B,): its length, the rank of rows by
length, where its steps begin in buffers that only the engine reads, and how many fit there.
"""

from __future__ import annotations

import ctypes
from typing import ClassVar

from weft.nn.native.struct import ConstBytes, ConstLongs, FloatsTable, NativeStruct


class RecurrenceCall(NativeStruct):
    c_name: ClassVar[str] = "recurrence_t"
    _fields_ = (
        ("tensors", FloatsTable), ("sizes", ConstLongs), ("strides", ConstLongs), ("length", ConstLongs),
        ("order", ConstLongs), ("base", ConstLongs), ("capacity", ConstLongs), ("reverse", ConstBytes),
        ("directions", ctypes.c_long), ("batch", ctypes.c_long), ("time", ctypes.c_long), ("blocks", ctypes.c_long),
    )  # fmt: skip
