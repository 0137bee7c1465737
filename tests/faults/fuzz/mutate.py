"""Files that are nearly right: a good one with bits, parts or values that are another."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

SPECIAL = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\r", b"\r\n", b"\n\n", b"\x0b", b"\x1b[31m", b"\t",
    b'"', b"'", b"\\", b"\\u0000", b"\\ud800", b"{", b"}", b"[", b"]", b"[[[[", b",", b":", b"=", b"#", b"null", b"NaN",
    b"Infinity", b"-0", b"1e999", b"-1", b"9" * 30, b"9" * 5000, b"true", b"\xe2\x80\xa8", b"\xc2\x85", b" " * 1000,
)  # fmt: skip
"""Pieces that parsers stumble over."""

NUMBERS = (0, -1, 1, 2**31, 2**32, 2**63, 2**64, 10**30, 0.5, -0.0, 1e308, float("inf"), float("nan"), True)
TEXTS = ("", "\0", "\ud800", "\x1b[31m", "nan", "../x", "/etc/passwd", "x" * 5000, "$tensor", "\u2028", "é")

plain_values = st.one_of(st.none(), st.booleans(), st.sampled_from(NUMBERS), st.sampled_from(TEXTS), st.integers())
values = st.recursive(
    plain_values,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(TEXTS), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def near(draw: st.DrawFn, good: bytes) -> bytes:
    """The bytes of a file after one to four accidents."""
    data = good
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(data)))
        end = min(len(data), begin + draw(st.sampled_from((0, 1, 2, 8, 40, 1000))))
        match draw(st.sampled_from(("flip", "cut", "remove", "double", "insert", "swap", "replace"))):
            case "flip" if begin < len(data):
                data = data[:begin] + bytes([data[begin] ^ 1 << draw(st.integers(0, 7))]) + data[begin + 1 :]
            case "cut":
                data = data[:begin]
            case "remove":
                data = data[:begin] + data[end:]
            case "double":
                data = data[:end] + data[begin:end] + data[end:]
            case "insert":
                data = data[:begin] + draw(st.sampled_from(SPECIAL)) + data[begin:]
            case "swap":
                last = min(len(data), end + (end - begin))
                data = data[:begin] + data[end:last] + data[begin:end] + data[last:]
            case "replace":
                data = data[:begin] + draw(st.sampled_from(SPECIAL)) + data[end:]
    return data


@st.composite
def other_values(draw: st.DrawFn, good: Any) -> Any:
    """A JSON value with one to three of its parts replaced, removed or renamed."""
    tree = copy.deepcopy(good)
    for _ in range(draw(st.integers(1, 3))):
        places = [(), *_places(tree)]
        *above, last = draw(st.sampled_from(places)) or (None,)
        if last is None:
            return draw(values)
        table = tree
        for part in above:
            table = table[part]
        match draw(st.sampled_from(("replace", "replace", "replace", "remove", "rename"))):
            case "replace":
                table[last] = draw(values)
            case "remove":
                del table[last]
            case "rename" if isinstance(table, dict):
                table[draw(st.sampled_from(TEXTS))] = table.pop(last)
    return tree


def _places(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values; of long tables and lists the first twenty."""
    inner = (
        list(tree.items())[:20]
        if isinstance(tree, dict)
        else list(enumerate(tree[:20]))
        if isinstance(tree, list)
        else []
    )
    for key, value in inner:
        yield (*above, key)
        yield from _places(value, (*above, key))


def files_like(good: bytes) -> st.SearchStrategy[bytes]:
    """Files that are nearly this one; of JSON also other values, well written."""
    try:
        value = json.loads(good)
    except ValueError:
        return near(good) if not _is_safetensors(good) else near(good) | _headers(good)
    return near(good) | other_values(value).map(_dump)


def _dump(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def _is_safetensors(data: bytes) -> bool:
    return len(data) > 9 and data[8:9] == b"{" and int.from_bytes(data[:8], "little") < len(data)


def _headers(good: bytes) -> st.SearchStrategy[bytes]:
    """The same numbers below another header."""
    length = int.from_bytes(good[:8], "little")
    header, numbers = json.loads(good[8 : 8 + length]), good[8 + length :]

    def write(value: Any) -> bytes:
        text = _dump(value)
        return len(text).to_bytes(8, "little") + text + numbers

    return other_values(header).map(write)
