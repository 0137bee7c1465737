"""Numbers as characters: heat maps of block characters, and colours for a terminal."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from weft.charts import readable

SHADES: Final = " ·░▒▓█"
"""Characters for values from 0 to 1, in equal steps."""

RAMP: Final = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725")
"""Colours for values from 0 to 1, in equal steps (viridis)."""

MAX_LABEL_CELLS: Final = 28
"""Columns of the longest label at the left of a heat map."""

MAX_UPRIGHT_CHARACTERS: Final = 4
"""Characters of a number that is written downwards; of longer dates one of several is written in one line."""

DATE: Final = re.compile(r"\d[\d\-:/. T+Z]*")
"""A date, a time or a number."""


def shade(value: float) -> str:
    """Return the character for a value from 0 to 1."""
    return SHADES[min(max(int(value * len(SHADES)), 0), len(SHADES) - 1)]


def colour(value: float) -> str:
    """Return the colour for a value from 0 to 1."""
    return RAMP[min(max(int(value * len(RAMP)), 0), len(RAMP) - 1)]


def heat_lines(
    values: Sequence[Sequence[float]], rows: Sequence[str], columns: Sequence[str], *, width: int, each: int = 2
) -> list[Text]:
    """values (R, C) from 0 to 1 -> lines of shades, `each` characters wide, below the column labels written downwards.

    Of dates every n-th stands above its column. A map that is wider than the terminal continues below itself. Columns
    may be left without labels.
    """
    left = min(MAX_LABEL_CELLS, max((cell_len(readable(name)) for name in rows), default=0))
    at_once = max(1, (width - left - 2) // each)
    lines: list[Text] = []
    length = max(map(len, values), default=0)
    for first in range(0, max(1, length), at_once):
        part = [readable(name) for name in columns[first : first + at_once]]
        height = max(map(len, part), default=0)
        if height > MAX_UPRIGHT_CHARACTERS and all(map(DATE.fullmatch, part)):
            lines.append(Text(" " * (left + 2) + _dates(part, each)))
        else:
            tall = [name.rjust(height) for name in part]
            for line in range(height):
                lines.append(Text(" " * (left + 2) + "".join(set_cell_size(name[line], each) for name in tall)))
        for name, row in zip(rows, values, strict=True):
            label = set_cell_size(readable(name), left)
            text = Text(f"{label}  ")
            for value in row[first : first + at_once]:
                text.append(shade(value) * each, style=colour(value) if value > 0 else "")
            lines.append(text)
        if first + at_once < length:
            lines.append(Text())
    for line_ in lines:
        line_.rstrip()
    return lines


def _dates(labels: Sequence[str], each: int) -> str:
    """Return one line with every n-th date, each beginning above its column."""
    every = -(-(max(map(len, labels)) + 2) // each)
    return "".join(label.ljust(every * each) for label in labels[::every])


def scale_line(low: str, high: str, *, blank: bool = True) -> Text:
    """Return the shades of a heat map between the values of the first and the last one; a blank may mean no value."""
    text = Text(f"scale: {low} ")
    for place, character in enumerate(SHADES):
        if not place and not blank:
            continue
        value = (place + 0.5) / len(SHADES)
        text.append((character if character.strip() else "blank") + " ", style=colour(value) if place else "")
    return text.append(high)


def cut(text: str, cells: int) -> str:
    """Return a text of exactly so many columns."""
    return set_cell_size(text, cells)
