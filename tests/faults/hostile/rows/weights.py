"""model.safetensors: headers that lie, and numbers that are none."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from typing import Any

from tests.faults.hostile.change import Change, content, nested, rewrite, safetensors, tensors
from tests.faults.hostile.row import AS_BEFORE, EITHER, Expected, Row, refused

WEIGHTS = "model.safetensors"
Header = dict[str, Any]


def _row(name: str, change: Change, expected: Expected | None = None, command: str = "predict") -> Row:
    return Row("weights", name, change, expected or refused("model.safetensors"), command)


def _first(header: Header) -> Header:
    """What the header says of the first tensor with two dimensions."""
    return next(found for name, found in sorted(header.items()) if len(found.get("shape", ())) == 2)


def _said(**values: Any) -> Change:
    """Something else said of that tensor."""
    return tensors(lambda header, numbers: _first(header).update(values))


def _other(name: str, said: Any) -> Change:
    """One more entry in the header."""
    return tensors(lambda header, numbers: header.update({name: said}))


def _filled(number: float, *, one: bool = False) -> Change:
    """Weights that are all one number, or one of them."""

    def alter(header: Header, numbers: bytearray) -> None:
        value = struct.pack("<f", number)
        numbers[: 4 if one else len(numbers)] = value * (1 if one else len(numbers) // 4)

    return tensors(alter)


def _typed(kind: str, width: int) -> Change:
    """All tensors of another type, with as many bytes as that takes."""

    def alter(header: Header, numbers: bytearray) -> None:
        for found in _tensors(header):
            found["dtype"] = kind
            found["data_offsets"] = [place * width // 4 for place in found["data_offsets"]]
        numbers[:] = bytes(len(numbers) * width // 4)

    return tensors(alter)


def _tensors(header: Header) -> list[Header]:
    return [found for name, found in header.items() if name != "__metadata__"]


def _swapped(header: Header, numbers: bytearray) -> None:
    _first(header)["shape"].reverse()


def _missing(header: Header, numbers: bytearray) -> None:
    """The last tensor of the file is gone, with its numbers."""
    last = max((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"])
    del numbers[header.pop(last)["data_offsets"][0] :]


def _extra(header: Header, numbers: bytearray) -> None:
    header["extra.weight"] = {"dtype": "F32", "shape": [2], "data_offsets": [len(numbers), len(numbers) + 8]}
    numbers += bytes(8)


def _named(name: str) -> Callable[[Header, bytearray], None]:
    """A tensor under another name."""

    def alter(header: Header, numbers: bytearray) -> None:
        last = max((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"])
        header[name] = header.pop(last)

    return alter


def _overlapping(header: Header, numbers: bytearray) -> None:
    """Two tensors in the same place."""
    found = sorted(_tensors(header), key=lambda entry: entry["data_offsets"])
    found[1]["data_offsets"] = [found[0]["data_offsets"][0], found[0]["data_offsets"][0] + _size(found[1])]


def _hole(header: Header, numbers: bytearray) -> None:
    """Bytes between tensors that belong to none."""
    for found in _tensors(header):
        found["data_offsets"] = [place + 8 for place in found["data_offsets"]]
    numbers[:0] = bytes(8)


def _size(found: Header) -> int:
    begin, end = found["data_offsets"]
    return int(end - begin)


def _twice(header: Header, numbers: bytearray) -> bytes:
    """A name twice, the second time with another place."""
    name = next(name for name in header if name != "__metadata__")
    text = json.dumps(header)
    return (text[:-1] + f", {json.dumps(name)}: {json.dumps(header[name])}}}").encode()


def _many(header: Header, numbers: bytearray) -> None:
    """A million tensors without numbers."""
    empty = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header.update({f"t{number}": empty for number in range(1_000_000)})


HEADERS = {
    "no JSON": b"hello",
    "a list": [],
    "null": None,
    "nested a hundred thousand times": nested(100_000).encode(),
    "bytes that are no UTF-8": b'{"\xff": 1}',
    "without tensors": {},
    "half of a surrogate pair for a name": b'{"\\ud800": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}',
}

ROWS = [
    _row("empty", content(WEIGHTS, b"")),
    _row("four bytes", content(WEIGHTS, b"\0\0\0\0")),
    _row("all zero", rewrite(WEIGHTS, lambda data: bytes(len(data)))),
    _row("a pickle", content(WEIGHTS, b"\x80\x04cos\nsystem\n(S'touch outside/owned'\ntR.")),
    *(
        _row(f"a header of {length} bytes", rewrite(WEIGHTS, lambda data, n=length: struct.pack("<Q", n) + data[8:]))
        for length in (0, 1, 2**31, 2**63, 2**64 - 1)
    ),
    *(_row(f"a header that is {what}", content(WEIGHTS, safetensors(header))) for what, header in HEADERS.items()),
    _row("cut in the header", rewrite(WEIGHTS, lambda data: data[:100])),
    _row("cut in the numbers", rewrite(WEIGHTS, lambda data: data[:-100])),
    _row("bytes after its end", rewrite(WEIGHTS, lambda data: data + bytes(100))),
    _row("tensors that overlap", tensors(_overlapping)),
    _row("a hole between tensors", tensors(_hole)),
    *(
        _row(f"a tensor from {begin} to {end}", _said(data_offsets=[begin, end]))
        for begin, end in ((8, 0), (-8, 8), (0, 2**63), (2**64, 2**64), (0.5, 8.5), ("0", "8"))
    ),
    _row("a tensor of no place", _said(data_offsets=[])),
    *(_row(f"the type {kind}", _said(dtype=kind)) for kind in ("F99", "F8_E4M3", "", 7, None, "\x1b[31mF32")),
    *(
        _row(f"numbers of type {kind}", _typed(kind, width))
        for kind, width in (("F16", 2), ("BF16", 2), ("F64", 8), ("I32", 4), ("I64", 8), ("BOOL", 1), ("F8_E5M2", 1))
    ),
    *(
        _row(f"the shape {str(shape)[:20]}", _said(shape=shape))
        for shape in ([], [0], [-1, 8], [2**62, 2**62], [1.5, 2], ["8"], [1] * 100_000, None, 7)
    ),
    _row("a transposed tensor", tensors(_swapped)),
    _row("a tensor missing", tensors(_missing), refused("model.safetensors", r"lacks|missing|has no")),
    _row("a tensor too many", tensors(_extra), refused("model.safetensors", "extra.weight")),
    _row("a tensor with escape codes for a name", tensors(_named("\x1b[31mred\x07"))),
    _row("a tensor with a million letters for a name", tensors(_named("x" * 1_000_000))),
    _row("a name twice", tensors(_twice)),
    _row("a million tensors", tensors(_many)),
    _row("metadata that is a list", _other("__metadata__", []), refused("model.safetensors")),
    _row("metadata that is no text", _other("__metadata__", {"a": 1}), refused("model.safetensors")),
    _row("metadata of five megabytes", _other("__metadata__", {"a": "x" * 5_000_000}), EITHER),
    _row("metadata with escape codes", _other("__metadata__", {"format": "\x1b[31mred"}), EITHER),
    _row("all NaN", _filled(float("nan")), refused("model.safetensors", "finite|NaN|nan")),
    _row("one NaN", _filled(float("nan"), one=True), refused("model.safetensors", "finite|NaN|nan")),
    _row("one infinite number", _filled(float("inf"), one=True), refused("model.safetensors", "finite|inf")),
    _row("one minus infinite number", _filled(float("-inf"), one=True), refused("model.safetensors", "finite|inf")),
    _row("NaN, evaluated", _filled(float("nan")), refused("model.safetensors"), "evaluate"),
    _row("denormal numbers", _filled(1e-42), Expected((0,))),
    _row("the largest numbers", _filled(3.4e38), EITHER, "predict as JSON"),
    _row("minus zero", _filled(-0.0), Expected((0,)), "predict as JSON"),
    _row(
        "blanks after the header", tensors(lambda header, numbers: json.dumps(header).encode() + b" " * 64), AS_BEFORE
    ),
]
