"""A check of what an ONNX file would make onnxruntime do, made before it is loaded, without the package onnx.

A file from elsewhere could name operators of other libraries, functions, and files outside its folder that hold
weights. So only the operators that weft writes are accepted, and weights in one file that the manifest lists.
The format is that of Protocol Buffers: fields of a number, a wire type and a value.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from weft.errors import RunError, shorten

MICROSOFT: Final = "com.microsoft"
OPERATORS: Final = {"": None, "ai.onnx": None, MICROSOFT: {"DynamicQuantizeLSTM"}}
"""Operators by their domain; None is all of the standard."""

EXTERNAL: Final = 1
MAX_DEPTH: Final = 8
"""The greatest depth of bodies in bodies."""

MODEL_FIELDS: Final = {"functions": 25, "training": 20, "opsets": 8, "graph": 7}
DTYPES: Final = {1: "float32", 2: "uint8", 3: "int8", 6: "int32", 7: "int64", 9: "bool"}


class External(NamedTuple):
    """A weight in the file of weights: its name, type and shape, and where it lies."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    location: str
    offset: int
    length: int


def check_model(content: bytes, where: str) -> list[External]:
    """The weights that lie in another file; raises a RunError for a model that is not one of weft's."""
    try:
        return _model(memoryview(content))
    except (IndexError, ValueError, UnicodeDecodeError, KeyError, OverflowError) as error:
        raise RunError(
            f"is no ONNX model that weft runs: {ascii(str(error))[1:-1]:.100}", where=where, cure="export again"
        ) from None


def _model(data: memoryview) -> list[External]:
    graph: memoryview | None = None
    for number, value in _fields(data):
        if number in (MODEL_FIELDS["functions"], MODEL_FIELDS["training"]):
            raise ValueError("it has functions of its own")
        if number == MODEL_FIELDS["opsets"]:
            _domain(_text(dict(_fields(_bytes(value))).get(1, b"")))
        if number == MODEL_FIELDS["graph"]:
            graph = _bytes(value)
    if graph is None:
        raise ValueError("it has no graph")
    return _graph(graph, 0)


def _domain(domain: str) -> str:
    if domain not in OPERATORS:
        raise ValueError(f"its operators are of {shorten(ascii(domain))}")
    return domain


def _graph(data: memoryview, depth: int) -> list[External]:
    """Check the nodes (1); return the external ones of the initializers (5). Sparse ones (15) are not weft's."""
    if depth > MAX_DEPTH:
        raise ValueError("its bodies are too deep")
    found = []
    for number, value in _fields(data):
        if number == 1:
            _node(_bytes(value), depth)
        elif number == 5:
            weight = _tensor(_bytes(value))
            if weight is not None and depth:
                raise ValueError("the body of a loop has weights in another file")
            found += [] if weight is None else [weight]
        elif number == 15:
            raise ValueError("it has sparse weights")
    return found


def _node(data: memoryview, depth: int) -> None:
    """op_type (4), attributes (5), domain (7), overload (8)."""
    kind, domain = "", ""
    for number, value in _fields(data):
        if number == 4:
            kind = _text(value)
        elif number == 5:
            _attribute(_bytes(value), depth)
        elif number == 7:
            domain = _domain(_text(value))
        elif number == 8:
            raise ValueError("it has overloads")
    allowed = OPERATORS[domain]
    if allowed is not None and kind not in allowed:
        raise ValueError(f"has the operator {shorten(ascii(kind))}")


def _attribute(data: memoryview, depth: int) -> None:
    """A tensor (5), a graph (6), tensors (10), graphs (11), sparse tensors (22, 23)."""
    for number, value in _fields(data):
        if number in (6, 11):
            _graph(_bytes(value), depth + 1)
        elif number in (5, 10) and _tensor(_bytes(value)) is not None:
            raise ValueError("a constant is in another file")
        elif number in (22, 23):
            raise ValueError("it has sparse constants")


def _tensor(data: memoryview) -> External | None:
    """dims (1), data_type (2), name (8), external_data (13), data_location (14)."""
    shape: list[int] = []
    kind, name, external = 0, "", False
    about: dict[str, str] = {}
    for number, value in _fields(data):
        if number == 1:
            shape += [value] if isinstance(value, int) else _packed(value)
        elif number == 2:
            kind = _int(value)
        elif number == 8:
            name = _text(value)
        elif number == 13:
            entry = dict(_fields(_bytes(value)))
            about[_text(entry.get(1, b""))] = _text(entry.get(2, b""))
        elif number == 14:
            external = _int(value) == EXTERNAL
    if not external:
        if about:
            raise ValueError("a weight has another place than it says")
        return None
    place = (int(about[key]) if about.get(key, "").isdecimal() else -1 for key in ("offset", "length"))
    return External(name, DTYPES[kind], tuple(shape), about.get("location", ""), *place)


def _fields(data: memoryview | bytes) -> Iterator[tuple[int, Any]]:
    """The number and the value of each field: an int, or the bytes of a text or message."""
    data, at = memoryview(data), 0
    while at < len(data):
        key, at = _varint(data, at)
        wire = key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        if wire == 2:
            size, at = _varint(data, at)
        elif wire in (1, 5):
            size = 8 if wire == 1 else 4
        else:
            raise ValueError("a field has no such type")
        if size > len(data) - at:
            raise ValueError("it ends too early")
        yield key >> 3, data[at : at + size]
        at += size


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for place in range(10):
        byte = data[at + place]
        value |= (byte & 127) << (7 * place)
        if byte < 128:
            return value, at + place + 1
    raise ValueError("a number is too long")


def _packed(data: memoryview) -> list[int]:
    found, at = [], 0
    while at < len(data):
        value, at = _varint(data, at)
        found.append(value)
    return found


def _int(value: Any) -> int:
    if not isinstance(value, int):
        raise ValueError("a number is none")
    return value


def _bytes(value: Any) -> memoryview:
    if isinstance(value, int):
        raise ValueError("a message is a number")
    return memoryview(value)


def _text(value: Any) -> str:
    return bytes(_bytes(value)).decode("utf-8")
