"""Reads time stamps: ISO dates, quarters, days with dots, and seconds since 1970; recognises those it cannot read."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

YEAR_FIRST: Final = re.compile(r"(\d{4})[-/.](\d{1,2})(?:[-/.](\d{1,2}))?(?:[T ](.+))?")
DAY_FIRST: Final = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[T ,]+(.+))?")
QUARTER: Final = re.compile(r"(\d{4})[- ]?Q([1-4])", re.IGNORECASE)
COMPACT: Final = re.compile(r"(\d{4})(\d{2})(\d{2})(?:T(.+))?")

OFFSET: Final = re.compile(r":\d\d(?:[.,]\d+)? ?(?:Z|[-+]\d\d(?::?\d\d)?)\s*$", re.IGNORECASE)

SLASHES: Final = re.compile(r"\d{1,2}[/-]\d{1,2}[/-]\d{2,4}\b.*")
"""A day and a month in an order that differs from country to country."""

MONTH_NAME: Final = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*"
DATE_LIKE: Final = re.compile(
    rf"(?:1[5-9]|2[0-2])\d\d[-/.]\d{{1,2}}(?:[-/. T].*)?|\d{{1,2}}[-/.]\d{{1,2}}[-/.]\d{{2,4}}\b.*|\d{{4}}[- ]?Q\d"
    rf"|Q\d[- ]?\d{{4}}|\d{{1,2}}[-/.]\d{{4}}|(?:\d{{1,2}}\W+)?{MONTH_NAME}\W+\d.*|\d{{4}}\W+{MONTH_NAME}.*"
    r"|\d{1,2}:\d\d.*",
    re.IGNORECASE,
)
"""Matches a cell that looks like a date or a time of day."""

EPOCH_DIGITS: Final = {10: 1, 13: 1000}
"""Digits of seconds and of milliseconds since 1970, from 2001 to 2286, and how many of them a second has."""


def read_stamp(text: str) -> int | None:
    """Seconds since 1970 of a date and time: 2024-01, 2024-01-31T12:30:00, 2024/1/31, 31.01.2024, 2024-Q1; None for
    anything else."""
    text = text.strip()
    if found := QUARTER.fullmatch(text):
        return _seconds(found[1], str(3 * int(found[2]) - 2), "1", None)
    if found := YEAR_FIRST.fullmatch(text) or COMPACT.fullmatch(text):
        return _seconds(found[1], found[2], found[3] or "1", found[4])
    if found := DAY_FIRST.fullmatch(text):
        return _seconds(found[3], found[2], found[1], found[4])
    return None


def _seconds(year: str, month: str, day: str, time: str | None) -> int | None:
    try:
        found = datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}" + (f"T{time}" if time else ""))
    except ValueError:
        return None
    found = found.replace(tzinfo=UTC) if found.tzinfo is None else found
    return math.floor(found.timestamp())


def has_offset(text: str) -> bool:
    """Whether a time stamp says its distance from UTC: 2024-01-31T12:30:00+01:00, or Z."""
    return OFFSET.search(text) is not None


def read_numbers_of_steps(texts: Sequence[str]) -> tuple[list[int], bool] | None:
    """The numbers of steps that all texts are, and whether they are only counted; those of 10 or 13 digits are seconds
    or milliseconds since 1970. None where one is no whole number, or where all have the eight digits of a date."""
    if not all(text.lstrip("-").isdecimal() and len(text) != 8 for text in texts):
        return None
    digits = {len(text) for text in texts}
    per_second = EPOCH_DIGITS.get(digits.pop()) if len(digits) == 1 else None
    return [int(text) // (per_second or 1) for text in texts], per_second is None


def is_compact_date(text: str) -> bool:
    """Whether eight digits are a date of this century or the last: 20240131."""
    return len(text) == 8 and text[:2] in ("19", "20") and text.isdecimal() and read_stamp(text) is not None


def looks_like_stamp(text: str) -> bool:
    """Whether a text is written like a date or a time of day, also one that cannot be read."""
    return DATE_LIKE.fullmatch(text.strip()) is not None


def refusal(text: str) -> str:
    """Why a text is no time stamp."""
    if SLASHES.fullmatch(text):
        return "where day and month could be exchanged"
    if YEAR_FIRST.fullmatch(text) or DAY_FIRST.fullmatch(text):
        return "a day or time that does not exist"
    return "no time stamp"
