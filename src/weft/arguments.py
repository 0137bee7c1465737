"""Checks of the type of an argument given in Python: one line that names it, instead of a TypeError somewhere below."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from operator import index
from typing import Any

from weft.errors import ConfigError

SHOWN_CHARACTERS = 40


def wrong(name: str, value: object, what: str, cure: str) -> ConfigError:
    """The error of a value that an argument may not have."""
    try:
        shown = " ".join(repr(value).split())
    except Exception:
        shown = type(value).__name__
    shown = shown if len(shown) <= SHOWN_CHARACTERS else f"{shown[: SHOWN_CHARACTERS - 1]}…"
    return ConfigError(what, where=f"{name} = {shown}", cure=cure)


def read_flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise wrong(name, value, "is neither true nor false", "True or False")
    return value


def read_whole(name: str, value: Any, *, least: int) -> int:
    """A whole number, which may be one of numpy's."""
    cure = f"a whole number, at least {least}"
    try:
        number = index(value)
    except TypeError:
        raise wrong(name, value, "is no whole number", cure) from None
    if isinstance(value, bool):
        raise wrong(name, value, "is no whole number", cure)
    if number < least:
        raise wrong(name, value, "is too low", cure)
    return number


def read_text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise wrong(name, value, "is no text", "give a text")
    return value


def read_list(name: str, value: object, cure: str) -> list[Any]:
    """The parts of a list, a tuple, a set or a column of a table, but not the letters of a text."""
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise wrong(name, value, "is no list", cure)
    try:
        return list(value)
    except TypeError:  # an array of a single number
        raise wrong(name, value, "is no list", cure) from None


def read_texts(name: str, value: object, cure: str) -> list[str]:
    """A list of texts."""
    return [read_text(f"{name}[{number}]", one) for number, one in enumerate(read_list(name, value, cure))]
