"""The arrays of weights.bin, each once: packed for products, plain for all else, in int8 where that is chosen."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

ALIGNMENT: Final = 64
BLOCK: Final = 16
"""Outputs side by side in a packed weight, as in products.c."""

MIN_QUANTIZED: Final = 512
"""Smaller matrices stay float32: they take no space."""


class Place(NamedTuple):
    """Where an array lies in the section of weights, in bytes, and what it is."""

    offset: int
    kind: str
    note: str
    bounds: tuple[int, int, int] | None = None
    """Of whole numbers, how many they are, the least and the largest."""


class Constants:
    """Collects arrays; the same array in the same form is stored once."""

    def __init__(self, *, int8: bool = False) -> None:
        self.int8, self.size = int8, 0
        self.places: list[Place] = []
        self._parts: list[bytes] = []
        self._found: dict[tuple[int, str], int] = {}
        self._kept: list[NDArray[Any]] = []

    def plain(self, array: NDArray[Any], note: str = "") -> str:
        """The expression of C for an array as it is."""
        return self._add(array, "plain", note, lambda: _four_bytes(array))

    def packed(self, array: NDArray[Any], note: str = "") -> tuple[str, str | None]:
        """The expressions for a weight (O, I) in blocks, and for the scales of its rows where it is in int8."""
        if not self.int8 or array.size < MIN_QUANTIZED:
            return self._add(array, "packed", note, lambda: pack(array.astype("<f4"))), None
        rounded, scale = _rounded(array)
        name = self._add(array, "int8", note, lambda: pack(rounded))
        return name, self._add(array, "scale", f"its scales {array.shape[:1]}", lambda: scale)

    def rows(self, array: NDArray[Any], note: str) -> tuple[str, str | None]:
        """The expressions for rows (N, D) one after another, and for their scales where they are in int8."""
        if not self.int8 or array.size < MIN_QUANTIZED:
            return self.plain(array, note), None
        rounded, scale = _rounded(array)
        return self.plain(rounded, note), self.plain(scale, f"the scales of {note}")

    def bytes(self) -> bytes:
        return b"".join(self._parts)

    def macros(self) -> list[str]:
        """The definitions of the expressions."""
        types = {"f": "float", "i": "int32_t", "b": "signed char"}
        return [
            f"#define W{number}(m) ((const {types[place.kind]} *)((m)->weights + {place.offset})) /* {place.note} */"
            for number, place in enumerate(self.places)
        ]

    def checks(self) -> list[str]:
        """Conditions of C that are false where a whole number is none that weft wrote. They number rows and places, so
        a damaged one behind a right checksum would read outside of an array."""
        return [
            f"weft_are_within(W{number}(m), {', '.join(map(str, place.bounds))})"
            for number, place in enumerate(self.places)
            if place.bounds is not None
        ]

    def _add(self, array: NDArray[Any], form: str, note: str, make: Any) -> str:
        key = (id(array), form)
        if key not in self._found:
            self._kept.append(array)
            made = np.ascontiguousarray(make())
            data = made.tobytes() + bytes(-made.nbytes % ALIGNMENT)
            self._found[key] = len(self.places)
            self.places.append(Place(self.size, _letter(made), note or f"{form} {tuple(array.shape)}", _bounds(made)))
            self._parts.append(data)
            self.size += len(data)
        return f"W{self._found[key]}(m)"


def _bounds(array: NDArray[Any]) -> tuple[int, int, int] | None:
    """The number of whole numbers, the least and the largest of them."""
    if _letter(array) != "i" or not array.size:
        return None
    return array.size, int(array.min()), int(array.max())


def _rounded(array: NDArray[Any]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Rows (N, D) in eight bits, and the scale of each."""
    scale = np.maximum(np.abs(array).max(1), 1e-30) / 127
    rounded = np.clip(np.rint(array / scale[:, None]), -127, 127).astype(np.int8)
    return rounded, scale.astype("<f4")


def pack(array: NDArray[Any]) -> NDArray[Any]:
    """(O, I) -> [O / 16][I][16], filled up with zeros."""
    outputs, inputs = array.shape
    blocks = -(-outputs // BLOCK)
    padded = np.zeros((blocks * BLOCK, inputs), array.dtype)
    padded[:outputs] = array
    return np.ascontiguousarray(padded.reshape(blocks, BLOCK, inputs).transpose(0, 2, 1))


def _four_bytes(array: NDArray[Any]) -> NDArray[Any]:
    """Numbers of four bytes; those of one stay."""
    if array.dtype == np.int8:
        return array
    return array.astype("<f4" if np.issubdtype(array.dtype, np.floating) else "<i4")


def _letter(array: NDArray[Any]) -> str:
    return "b" if array.dtype == np.int8 else "f" if np.issubdtype(array.dtype, np.floating) else "i"
