"""Errors with three parts: what is wrong, where, and the cure.

Every mistake of a user raises a `WeftError`; the command line prints it in one or two lines and exits with its exit
code. Any other exception is a bug of weft.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Final

MAX_NAME_CHARACTERS: Final = 300
"""Characters of a name in a message; file systems have names of up to 255."""


class WeftError(Exception):
    """An error that the user can fix: what is wrong, where, and the cure."""

    exit_code = 2

    def __init__(self, what: str, *, where: str | None = None, cure: str | None = None) -> None:
        self.what, self.where, self.cure = what, where, cure
        place = where and shorten(where)
        super().__init__(": ".join(part for part in (place, what) if part) + (f" ({cure})" if cure else ""))


class DataError(WeftError):
    """A file of examples that cannot be read; `where` is `file:line`."""


class ConfigError(WeftError, ValueError):
    """A setting that is unknown, of the wrong type or impossible; `where` is its path, such as `train.rate`.

    It is a ValueError, so that validators may raise it; the reader of the configuration then completes its path.
    """


class RunError(WeftError):
    """A run folder that is missing, incomplete, damaged or in the way."""


class Fault(WeftError):
    """A failure that is not a mistake in the input, such as a full disk."""

    exit_code = 1


def shorten(name: str) -> str:
    """Shorten a very long name for a message to its beginning and its end, where a file has its suffix or line."""
    return name if len(name) <= MAX_NAME_CHARACTERS else f"{name[: MAX_NAME_CHARACTERS - 20]}…{name[-20:]}"


def show_path(path: str) -> str:
    """A path for a message: relative to the current folder if it is inside it."""
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return path
    return str(Path(path).relative_to(here)) if Path(path).is_relative_to(here) else path


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """A number with the noun in its singular or plural: 1 example, 1,234 examples."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


MAX_LISTED_NAMES: Final = 60
"""Names that a message lists; all names of settings and parts are fewer, labels may be many."""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The cure for a misspelt name: the nearest valid one, or the list of all of them, up to a limit."""
    known = sorted(names)
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    if near:
        return f'did you mean "{near[0]}"?'
    more = f" and {len(known) - MAX_LISTED_NAMES:,} more" * (len(known) > MAX_LISTED_NAMES)
    return f"choose from {', '.join(known[:MAX_LISTED_NAMES])}{more}"
