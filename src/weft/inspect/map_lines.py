"""An embedding map for a terminal: the neighbours with bars of their cosines, and a map of characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from weft.charts import readable
from weft.inspect.terminal import cut

if TYPE_CHECKING:
    from weft.inspect.embedding_map import EmbeddingMap, MapPoint

BAR_CELLS, MAX_WORD_CELLS, MAP_LINES = 40, 30, 22
MARKS: Final = {"query": "●", "sum": "◆", "neighbour": "○", "context": "·"}
STYLES: Final = {"query": "bold #e69f00", "sum": "bold #cc79a7", "neighbour": "#56b4e9", "context": "dim"}
LABELS_WITHOUT_QUESTION: Final = 25


def map_lines(view: EmbeddingMap, width: int) -> list[Text]:
    """Return the list of neighbours and the map."""
    lines = [Text(view.title, style="bold")]
    if view.neighbours:
        left = min(MAX_WORD_CELLS, max(cell_len(readable(word)) for word, _ in view.neighbours))
        for word, cosine in view.neighbours:
            line = Text(f"{cut(readable(word), left)}  {cosine:6.3f} ")
            lines.append(line.append("█" * round(BAR_CELLS * max(0.0, cosine)), style="#56b4e9"))
    return [*lines, Text(), *_map(view, width)]


def _map(view: EmbeddingMap, width: int) -> list[Text]:
    """Return the points as characters, with labels where there is space for them."""
    left, right = _bounds([one.x for one in view.points])
    low, high = _bounds([one.y for one in view.points])
    grid: list[list[tuple[str, str]]] = [[(" ", "")] * width for _ in range(MAP_LINES)]

    def place(one: MapPoint) -> tuple[int, int]:
        column = int((one.x - left) / (right - left) * (width - 1))
        return column, int((high - one.y) / (high - low) * (MAP_LINES - 1))

    important = [one for one in view.points if one.kind != "context"]
    labelled = important or list(view.points[:LABELS_WITHOUT_QUESTION])
    for one in (*(one for one in view.points if one.kind == "context"), *important):
        column, row = place(one)
        grid[row][column] = (MARKS[one.kind], STYLES[one.kind])
    free = {" ", MARKS["context"]}
    for one in labelled:
        column, row = place(one)
        word = readable(one.word)
        size = cell_len(word)
        for first in (column + 2, column - size - 1):
            cells = range(first - 1, first + size + 1)
            inside = first >= 0 and first + size <= width
            if inside and all(grid[row][cell][0] in free for cell in cells if 0 <= cell < width and cell != column):
                # A wide letter takes two cells: the first holds it, and the other holds nothing.
                at = first
                for letter in word:
                    grid[row][at] = (letter, STYLES[one.kind])
                    for extra in range(1, cell_len(letter)):
                        grid[row][at + extra] = ("", "")
                    at += cell_len(letter)
                break
    lines = []
    for row_cells in grid:
        line = Text()
        for letter, style in row_cells:
            line.append(letter, style=style)
        line.rstrip()
        lines.append(line)
    return lines


def _bounds(values: list[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    return (low, high) if high > low else (low - 1.0, high + 1.0)
