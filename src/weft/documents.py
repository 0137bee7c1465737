"""Reading untrusted JSON and TOML within limits, and writing valid JSON.

A document is checked before it is parsed: how deep it is nested, how many values it has, how long its numbers are. A
ValueError says what is wrong.
"""

from __future__ import annotations

import codecs
import gc
import json
import math
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from weft import limits
from weft.errors import RunError
from weft.version import __version__

FORMAT_VERSION: Final = 2
"""The version of the format of run folders. Older ones are read by the steps of weft/config/migrations.py."""

_RELEASE: Final = re.compile(r"([0-9]{1,6})\.([0-9]{1,6})\.([0-9]{1,6})")
"""A version of weft, as it is named in an error."""

_BRACKETS: Final = b"[]{}"
_WORDS: Final = bytes(set(range(256)) - set(b'[]{}:,"_0123456789'))
_OTHERS: Final = bytes(set(range(256)) - set(_BRACKETS))
_LONG_NUMBER: Final = re.compile(rb"[0-9_]{%d}" % (limits.DIGITS + 1))
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")

_NOT_CODE: Final = re.compile(
    rb'"""(?:[^"\\]|\\.|"(?!""))*+"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*+"|\'[^\'\n]*\'|#[^\n]*', re.DOTALL
)
"""Strings and comments of TOML."""

_LONG_KEY: Final = re.compile(rb"(?:[\w-]*\.){%d}" % (limits.NESTING_LEVELS + 1))


class NewerFormat(RunError):
    """A run folder of a newer weft, which this one can neither read nor overwrite."""


def parse_json(content: bytes | str, *, constants: bool = False) -> Any:
    """Return the value of a JSON text in UTF-8. Raises on duplicate keys and on numbers that are not finite.

    `constants` allows NaN and Infinity, which are not JSON but are in reports and journals of older versions.
    """
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("not text in UTF-8") from None
    # Without escapes every quote begins or ends a string; what remains is the text between strings.
    plain = data.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in data else data
    if plain.count(b'"') > 2 * limits.VALUES:
        raise _too_many()
    _check_code(b"".join(plain.translate(None, _WORDS).split(b'"')[::2]))
    del plain
    with _no_collection():
        value = (_WITH_CONSTANTS if constants else _STRICT).decode(text)
    if _SURROGATE.search(data):
        _check_text(value)
    return value


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML text."""
    code = _NOT_CODE.sub(b"", text.encode("utf-8", "surrogatepass"))
    _check_code(code)
    if _LONG_KEY.search(code.translate(None, b" \t")):
        raise _too_deep()
    return tomllib.loads(text)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return the value as JSON text. A number that is not finite becomes null, since JSON has none."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent)
    except ValueError:
        return json.dumps(_without_infinite(value), ensure_ascii=False, allow_nan=False, indent=indent)


def check_version(found: Any, where: str, *, written_by: Any = None) -> int:
    """Return the format_version of a folder that this weft can read; raise for any other.

    `written_by` is the version of weft that the folder names."""
    if isinstance(found, bool) or not isinstance(found, int) or found < 0:
        raise RunError(f"is damaged: format_version is {found!a:.40}", where=where, cure="copy it again")
    if found > FORMAT_VERSION:
        known = _is_newer(written_by)
        cure = f"install it: pip install 'weft>={written_by}'" if known else "upgrade: pip install -U weft"
        by = f"weft {written_by}" if known else "a newer weft"
        what = f"was written by {by} in format {found}, and this weft reads formats up to {FORMAT_VERSION}"
        raise NewerFormat(what if found < 10**6 else "was written by a newer weft", where=where, cure=cure)
    return found


def _is_newer(version: Any) -> bool:
    """Return whether this names a release of weft after this one."""
    found, own = (_RELEASE.fullmatch(text) if isinstance(text, str) else None for text in (version, __version__))
    return found is not None and own is not None and tuple(map(int, found.groups())) > tuple(map(int, own.groups()))


@contextmanager
def _no_collection() -> Iterator[None]:
    """Turn off garbage collection: a parser makes no garbage, and the search for it takes longer than parsing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _check_code(code: bytes) -> None:
    """Raise if a document, given without its strings, is too large or nested too deep for a parser."""
    values = code.count(b",") + code.count(b"[") + code.count(b"{")
    if values > limits.VALUES or code.count(b":") > limits.VALUES // 4:
        raise _too_many()
    if _LONG_NUMBER.search(code):
        raise ValueError(f"a number of more than {limits.DIGITS} digits")
    brackets = code.translate(None, _OTHERS)
    for _ in range(limits.NESTING_LEVELS):  # each round removes the innermost level
        before = len(brackets)
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
        if len(brackets) == before:
            break
    # Unmatched brackets are left to the parser, whose error gives their position.
    if b"[]" in brackets or b"{}" in brackets or len(brackets) > limits.NESTING_LEVELS:
        raise _too_deep()


def _too_deep() -> ValueError:
    return ValueError(f"nested deeper than {limits.NESTING_LEVELS} tables and lists")


def _too_many() -> ValueError:
    return ValueError(f"more than {limits.VALUES:,} values")


def _table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) < len(pairs):
        twice = next(key for key, count in Counter(key for key, _ in pairs).items() if count > 1)
        raise ValueError(f"the key {twice!a:.60} occurs twice")
    return table


def _finite_number(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text:.60} is too large for a number")
    return number


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no number in JSON")


_STRICT: Final = json.JSONDecoder(object_pairs_hook=_table, parse_float=_finite_number, parse_constant=_no_number)
_WITH_CONSTANTS: Final = json.JSONDecoder(object_pairs_hook=_table)
"""Built once, since a journal has a document on every line."""


def _check_text(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair, which is no text") from None


def _without_infinite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_infinite(item) for key, item in value.items()}
    return [_without_infinite(item) for item in value] if isinstance(value, list | tuple) else value
