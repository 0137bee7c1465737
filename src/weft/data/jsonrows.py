"""Reads JSON objects with their line numbers, one per line or all in one array; and looks up values in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeAlias

from weft.data.badlines import BadLines
from weft.data.sources import UTF8_MARK, decode, has_surrogate, lines
from weft.errors import DataError

Object: TypeAlias = dict[str, Any]

_BLANK = " \t\r\n"


def read_objects(name: str, bad: BadLines) -> Iterator[tuple[int, Object]]:
    """Yield the objects of a file of JSON lines, or of one array; an array is held in memory while it is read."""
    numbered = ((number, line) for number, line in lines(name, bad) if line.strip())
    first = next(numbered, None)
    if first is None:
        return
    everything = chain([first], numbered)
    array = first[1].lstrip().startswith("[")
    yield from _only_objects(_in_array(everything, name, bad) if array else _by_line(everything, name, bad), name, bad)


def parse_objects(numbered: Iterable[tuple[int, bytes]], name: str, bad: BadLines) -> Iterator[tuple[int, Object]]:
    """Yield the objects of some lines of a file of JSON lines, given with their numbers; blank lines are skipped."""
    yield from _only_objects(_by_line(_texts(numbered, name, bad), name, bad), name, bad)


def _texts(numbered: Iterable[tuple[int, bytes]], name: str, bad: BadLines) -> Iterator[tuple[int, str]]:
    for number, raw in numbered:
        try:
            text = decode(raw.removeprefix(UTF8_MARK) if number == 1 else raw, name, number)
        except DataError as error:
            bad.report(error)
            continue
        if text.strip():
            yield number, text


def _only_objects(found: Iterable[tuple[int, Any]], name: str, bad: BadLines) -> Iterator[tuple[int, Object]]:
    for number, value in found:
        if isinstance(value, dict):
            yield number, value
        else:
            cure = 'write one object per line, or an array of objects, such as {"text": "…", "label": "…"}'
            bad.report(DataError("not a JSON object", where=f"{name}:{number}", cure=cure))


def _by_line(numbered: Iterator[tuple[int, str]], name: str, bad: BadLines) -> Iterator[tuple[int, Any]]:
    for number, line in numbered:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            cure = "write one object per line, or an array of objects"
            bad.report(DataError(f"not JSON: {error}", where=f"{name}:{number}", cure=cure))
            continue
        yield number, value


def _in_array(numbered: Iterator[tuple[int, str]], name: str, bad: BadLines) -> Iterator[tuple[int, Any]]:
    """Parse the elements one by one, to know their lines. None can be skipped: an error hides where the next begins."""
    begins, parts = list[tuple[int, int]](), list[str]()
    size = 0
    for number, line in numbered:
        begins.append((size, number))
        parts.append(line)
        size += len(line) + 1
    text, decoder = "\n".join(parts), json.JSONDecoder()
    del parts
    position, place, current = text.index("[") + 1, 0, 0
    while True:
        position = _skip(text, position)
        while place < len(begins) and begins[place][0] <= position:
            current, place = begins[place][1], place + 1
        if text[position : position + 1] == "]":
            if (rest := _skip(text, position + 1)) < len(text):
                where = f"{name}:{max(number for begin, number in begins if begin <= rest)}"
                raise DataError("text after the end of the array", where=where, cure="write one array, or one per line")
            return
        try:
            value, position = decoder.raw_decode(text, position)
            position = _skip(text, position)
            if (end := text[position : position + 1]) not in (",", "]"):
                raise ValueError("expected , or ] after an element of the array")
        except (ValueError, RecursionError) as error:
            what = f"not JSON: {getattr(error, 'msg', error)}"
            raise DataError(
                what, where=f"{name}:{current}", cure="write an array of objects, or one per line"
            ) from None
        yield current, value
        position += end == ","


def _skip(text: str, position: int) -> int:
    while text[position : position + 1] in _BLANK and position < len(text):
        position += 1
    return position


def look_up(value: Object, path: str) -> Any:
    """Return the value of a key, or of a path of keys and list positions: `review.body`, `translations.0`."""
    if path in value:
        return value[path]
    found: Any = value
    for key in path.split("."):
        if isinstance(found, Mapping) and key in found:
            found = found[key]
        elif isinstance(found, list) and key.isdecimal() and int(key) < len(found):
            found = found[int(key)]
        else:
            raise KeyError(path)
    return found


def reaches(value: Any, path: str) -> bool:
    """Whether `look_up` finds something."""
    try:
        look_up(value, path)
    except KeyError:
        return False
    return True


def leaves(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every path of an object that leads to a text, a number or a boolean."""
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from leaves(inner, f"{prefix}{key}.")
        elif isinstance(inner, str | int | float):
            yield f"{prefix}{key}", inner


def no_targets(name: object, place: str) -> DataError:
    """The error for an empty list of right targets."""
    return DataError(
        f'"{name}" is an empty list', where=place, cure="give at least one right target, or remove the row"
    )


def spell(value: Any, name: str, place: str) -> str:
    """Return a string as it is; numbers, true and false as JSON writes them."""
    if not isinstance(value, str | bool | int | float):
        cure = 'write it as "…"'
        cure += '; a list of right targets needs data.references = "many"' * isinstance(value, list)
        raise DataError(f'"{name}" is {json.dumps(value)[:40]}, not a text', where=place, cure=cure)
    text = value if isinstance(value, str) else json.dumps(value)
    if has_surrogate(text):
        raise DataError(f'"{name}" has half of a surrogate pair', where=place, cure="write the character as UTF-8")
    return text.strip()
