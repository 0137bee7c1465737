"""Attention as characters: a map of shades with the strongest partner of each row, or a square for each word."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from rich.cells import cell_len
from rich.text import Text

from weft.charts import readable
from weft.inspect.terminal import MAX_LABEL_CELLS, colour, cut, heat_lines, scale_line, shade

if TYPE_CHECKING:
    from weft.inspect.attention_maps import Attention

MAX_ROWS: Final = 60
"""Rows of a map in a terminal; a longer one is shown in blocks."""

PARTNER_CELLS: Final = 24
"""Columns for the strongest partner at the end of a row."""


def map_lines(found: Attention, width: int) -> list[Text]:
    """Rows of shades from 0 to the largest weight, each followed by the token with the most weight."""
    left = min(MAX_LABEL_CELLS, max((cell_len(readable(row.token)) for row in found.rows), default=0))
    room = max(4, (width - left - 2 - PARTNER_CELLS) // 2)
    blocks = found.blocks(sides=(max(MAX_ROWS, 1), room)) if _is_long(found, room) else found.blocks()
    top = float(blocks.weights.max()) if blocks.weights.size else 0.0
    shares = (blocks.weights / max(top, 1e-12)).tolist()
    lines = heat_lines(shares, blocks.rows, blocks.columns, width=max(width, left + 2 + 2 * len(blocks.columns)))
    for line, row in zip(lines[len(lines) - len(blocks.rows) :], blocks.weights, strict=True):
        best = int(np.argmax(row))
        line.pad_right(max(0, left + 2 + 2 * len(blocks.columns) - cell_len(line.plain)))
        line.append(f"  {readable(blocks.columns[best])} {row[best]:.2f}", style="dim")
    lines.append(scale_line("0", f"{top:.2f}"))
    if not blocks.single:
        lines.append(Text(f"A cell is the mean of {blocks.tall} × {blocks.wide} weights.", style="dim"))
    return lines


def _is_long(found: Attention, room: int) -> bool:
    return len(found.rows) > MAX_ROWS or len(found.columns) > room


def square_lines(found: Attention) -> list[Text]:
    """A square of shades for each word, from none to the largest weight of that word."""
    assert found.grid is not None
    width = found.grid[1]
    left = min(MAX_LABEL_CELLS, max((cell_len(readable(row.token)) for row in found.rows), default=0))
    lines = []
    for row, weights in zip(found.rows, found.weights, strict=True):
        shares = (weights / max(float(weights.max()), 1e-9)).tolist()
        for place in range(0, len(shares), width):
            line = Text(cut(readable(row.token) if not place else "", left) + "  ")
            for share in shares[place : place + width]:
                line.append(shade(share) * 2, style=colour(share) if share > 0 else "")
            line.rstrip()
            lines.append(line)
    return lines
