"""Tokens as chips: a small box for each, in lines of text that wrap, in the reading direction of the text."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from typing import Final, NamedTuple

from rich.cells import cell_len

from weft.charts import readable

BLANK: Final = "▁"
"""How tokens show a blank."""

CELL_PIXELS: Final = 8.5
"""The width of a letter of a monospace font of 14 pixels; letters of wide scripts have two."""

PADDING_PIXELS, GAP_PIXELS = 4.0, 3.0
LINE_PIXELS, CHIP_PIXELS = 32, 24


class Chip(NamedTuple):
    """A token at its place: blanks before it, which are shown faintly, and the rest."""

    blanks: str
    word: str
    x: float
    width: float
    line: int


class Laid(NamedTuple):
    """All chips of a text, and the size of the whole in pixels."""

    chips: tuple[Chip, ...]
    width: float
    lines: int
    right_to_left: bool


def split_blanks(token: str) -> tuple[str, str]:
    """Return the blanks at the beginning of a token, and the rest; a token of blanks alone is the rest."""
    shown = readable(token)
    word = shown.lstrip(BLANK)
    return (shown[: len(shown) - len(word)], word) if word else ("", shown)


def reads_right_to_left(text: str) -> bool:
    """Return whether the first letter that has a direction is read from right to left."""
    directions = (unicodedata.bidirectional(letter) for letter in text)
    return next((found in ("R", "AL") for found in directions if found in ("L", "R", "AL")), False)


def lay_chips(tokens: Sequence[str], text: str, *, width: float) -> Laid:
    """Return the place of each token in lines of at most `width` pixels; after a line break a new line begins."""
    chips, x, line, widest = list[Chip](), 0.0, 0, 0.0
    for token in tokens:
        blanks, word = split_blanks(token)
        size = CELL_PIXELS * (cell_len(blanks) + cell_len(word)) + 2 * PADDING_PIXELS
        if x and x + size > width:
            x, line = 0.0, line + 1
        chips.append(Chip(blanks, word, x, size, line))
        x += size + GAP_PIXELS
        widest = max(widest, x)
        if token.endswith(("\n", "⏎")):
            x, line = 0.0, line + 1
    backwards = reads_right_to_left(text)
    if backwards:
        chips = [chip._replace(x=widest - chip.x - chip.width) for chip in chips]
    return Laid(tuple(chips), widest, max((chip.line for chip in chips), default=-1) + 1, backwards)
