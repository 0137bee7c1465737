"""The call of a generated recurrence in C: its structure, and the order of its tensors."""

from __future__ import annotations

import ctypes
from typing import ClassVar

from weft.nn.native.struct import ConstBytes, ConstLongs, FloatsTable, NativeStruct
from weft.nn.recurrent.engine.adjoint import Adjoint, left_states
from weft.nn.recurrent.engine.argument import KEYS, SAVED, VALUES, Argument, Kind, arguments
from weft.nn.recurrent.engine.layout import BufferLayout
from weft.nn.recurrent.engine.program import Program


class RecurrenceCall(NativeStruct):
    """One call, for all directions.

    tensors: their addresses, per direction; sizes: the numbers that the text names n[0], n[1], …; strides of the
    weights; reverse: whether a direction reads rows from their end. Of each row (B,): its length, the order of rows by
    length; base and capacity: where its steps begin in buffers that only the engine reads, and how many fit there;
    first and room: the same of buffers of all steps. Of a source that steps attend to: the length of each row (B,), and
    the longest.
    """

    c_name: ClassVar[str] = "recurrence_t"
    _fields_ = (
        ("tensors", FloatsTable), ("sizes", ConstLongs), ("strides", ConstLongs), ("length", ConstLongs),
        ("order", ConstLongs), ("base", ConstLongs), ("capacity", ConstLongs), ("first", ConstLongs),
        ("room", ConstLongs), ("source_lengths", ConstLongs), ("reverse", ConstBytes), ("directions", ctypes.c_long),
        ("batch", ctypes.c_long), ("blocks", ctypes.c_long), ("source_steps", ctypes.c_long),
    )  # fmt: skip


class LoopCall(NativeStruct):
    """One call of a loop without products, for all directions; the fields of RecurrenceCall, and how the work is cut.

    columns: of a task, at most; chunks of a row's time, 1 where the loop is no scan, and the steps of each.
    """

    c_name: ClassVar[str] = "loop_t"
    _fields_ = (
        ("tensors", FloatsTable), ("sizes", ConstLongs), ("length", ConstLongs), ("order", ConstLongs),
        ("base", ConstLongs), ("capacity", ConstLongs), ("first", ConstLongs), ("room", ConstLongs),
        ("reverse", ConstBytes), ("directions", ctypes.c_long), ("batch", ctypes.c_long), ("columns", ctypes.c_long),
        ("chunks", ctypes.c_long), ("steps", ctypes.c_long),
    )  # fmt: skip


def forward_arguments(program: Program, layout: BufferLayout, biased: tuple[int, ...]) -> list[Argument]:
    """The tensors of the forward pass in one direction."""
    states = len(program.state)
    emitted = arguments(Kind.EMITTED, len(program.emitted))
    return [
        *arguments(Kind.HOISTED, len(program.hoisted)),
        *arguments(Kind.START, states),
        *_constants(program),
        *(Argument(Kind.SHIFT, number) for number in biased),
        *(Argument(Kind.BIAS, number) for number, product in enumerate(program.products) if product.bias is not None),
        *arguments(Kind.HISTORY, states),
        *(argument for argument in emitted if argument.number not in layout.history_of),
        *arguments(Kind.FINAL, states),
        *_saved(layout),
        *_attention(program),
    ]


def backward_arguments(
    program: Program, adjoint: Adjoint, layout: BufferLayout, biased: tuple[int, ...]
) -> list[Argument]:
    """The tensors of the backward pass in one direction."""
    states = len(program.state)
    products = arguments(Kind.GRAD_PRODUCT, len(program.products))
    additive = program.additive
    return [
        *arguments(Kind.START, states),
        *arguments(Kind.HISTORY, states),
        *_constants(program),
        *_saved(layout),
        *arguments(Kind.GRAD_EMITTED, len(program.emitted)),
        *arguments(Kind.GRAD_FINAL, states),
        *arguments(Kind.GRAD_HOISTED, len(program.hoisted)),
        *(Argument(Kind.SUM_HOISTED, number) for number in biased),
        *(Argument(Kind.BEFORE, state) for state in left_states(program)),
        *(argument for argument in products if argument.number not in layout.product_alias),
        *arguments(Kind.GRAD_VECTOR, len(layout.vectors)),
        *(Argument(Kind.LEFTS, number) for number in adjoint.left),
        *arguments(Kind.GRAD_START, states),
        *_attention(program),
        *(Argument(Kind.GRAD_SCORES, number) for number in program.attends),
        *(Argument(Kind.GRAD_OVER, number) for number in additive),
        *([KEYS.gradient] if additive else ()),
    ]


def _constants(program: Program) -> list[Argument]:
    vectors = [Argument(Kind.VECTOR, constant) for constant in program.vectors]
    return vectors + [Argument(Kind.WEIGHT, number) for number, p in enumerate(program.products) if not p.attention]


def _attention(program: Program) -> list[Argument]:
    if not program.attends:
        return []
    over, attention = (
        [Argument(kind, number) for number in numbers]
        for kind, numbers in ((Kind.OVER, program.additive), (Kind.ATTENTION, program.attends))
    )
    return [KEYS, VALUES, *over, *attention]


def _saved(layout: BufferLayout) -> list[Argument]:
    return [Argument(Kind.KEPT, number) for number in layout.overwritten] + ([SAVED] if layout.saved else [])
