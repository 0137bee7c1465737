"""A row of the battery: what is changed in a folder, which command then reads it, and what is expected of that."""

from __future__ import annotations

from typing import NamedTuple

from tests.faults.hostile.change import Change


class Expected(NamedTuple):
    """Exit codes that are right, patterns that the message must match, and whether the answer must be the usual one."""

    codes: tuple[int, ...]
    words: tuple[str, ...] = ()
    same: bool = False


def refused(*words: str) -> Expected:
    """Exit code 2 and one line in which these patterns are found."""
    return Expected((2,), words)


def noticed(*words: str) -> Expected:
    """Refused, or told in a note while the command goes on."""
    return Expected((0, 2), words)


AS_BEFORE = Expected((0,), same=True)
EITHER = Expected((0, 2))
"""Harmless: refused or read, within the limits."""


class Row(NamedTuple):
    """One hostile folder. `base` is the run that is changed, `command` one of those in attempt.py."""

    group: str
    name: str
    change: Change
    expected: Expected
    command: str = "predict"
    base: str = "classify"

    @property
    def title(self) -> str:
        return f"{self.group}: {self.name}"
