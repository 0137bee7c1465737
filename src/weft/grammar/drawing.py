"""Draws trees with the lines of a terminal: from the top down, or as an outline where that is too wide."""

from __future__ import annotations

from typing import Final, NamedTuple

from rich.cells import cell_len

from weft.console import visible
from weft.grammar.tree import Tree

GAP: Final = 1
"""Columns between neighbouring parts of a tree."""

MAX_LEVELS: Final = 200
"""Levels of a tree that is drawn: the picture of a deeper one would grow with the square of its size."""

MAX_COLUMNS: Final = 2000
"""Columns of a picture that goes to a file or a pipe."""

EMPTY: Final = "ε"


class Block(NamedTuple):
    """A drawn subtree: lines of equal width, and the column where the line from its parent ends."""

    lines: list[str]
    width: int
    anchor: int


def draw(tree: Tree, *, width: int | None = None) -> str:
    """The tree from the top down; as an outline if that takes more than `width` columns. Wide characters count two.

    A tree of more than `MAX_LEVELS` levels is written in brackets, on one line.
    """
    nodes = list(tree.preorder())
    if max(depth for _, depth, _ in nodes) > MAX_LEVELS:
        return visible(tree.brackets())
    width = MAX_COLUMNS if width is None else width
    below: list[list[Block]] = [[] for _ in nodes]
    for number in range(len(nodes) - 1, -1, -1):
        node, _, parent = nodes[number]
        block = _leaf(node) if isinstance(node, str) else _join(node.label, below[number][::-1] or [_leaf(EMPTY)])
        if block.width > width:
            return outline(tree)
        if parent < 0:
            return "\n".join(line.rstrip() for line in block.lines)
        below[parent].append(block)
        below[number] = []
    raise AssertionError("a tree has a root")


def outline(tree: Tree) -> str:
    """The tree with a line for each node, indented below its parent; a single word stands behind its name."""
    nodes = list(tree.preorder())
    last = {parent: number for number, (_, _, parent) in enumerate(nodes)}
    lines: list[str] = []
    indents: list[str] = []  # by node: what stands before its children
    for number, (node, _, parent) in enumerate(nodes):
        is_last = last[parent] == number
        above = nodes[parent][0] if parent >= 0 else None
        lead = "" if parent < 0 else indents[parent] + ("└─ " if is_last else "├─ ")
        indents.append("" if parent < 0 else indents[parent] + ("   " if is_last else "│  "))
        if isinstance(node, str) and isinstance(above, Tree) and len(above.children) == 1:
            lines[-1] += f" {visible(node)}"
        elif isinstance(node, str):
            lines.append(lead + visible(node))
        else:
            lines.append(lead + visible(node.label) + (f" {EMPTY}" if not node.children else ""))
    return "\n".join(lines)


def _leaf(text: str) -> Block:
    shown = visible(text)
    return Block([shown], cell_len(shown), max(cell_len(shown) - 1, 0) // 2)


def _join(label: str, parts: list[Block]) -> Block:
    """Draw a name above its parts, which stand side by side."""
    starts, width = [], 0
    for part in parts:
        starts.append(width)
        width += part.width + GAP
    width -= GAP
    height = max(len(part.lines) for part in parts)
    lines = [
        (" " * GAP).join(part.lines[row] if row < len(part.lines) else " " * part.width for part in parts)
        for row in range(height)
    ]
    anchors = [start + part.anchor for start, part in zip(starts, parts, strict=True)]
    anchor = (anchors[0] + anchors[-1]) // 2
    shown = visible(label)
    size = cell_len(shown)
    start = anchor - max(size - 1, 0) // 2
    if start < 0:  # the name is wider than what is below it
        lines = [" " * -start + line for line in lines]
        anchors = [one - start for one in anchors]
        width, anchor, start = width - start, anchor - start, 0
    total = max(width, start + size)
    head = " " * start + shown + " " * (total - start - size)
    pad = " " * (total - width)
    return Block([head, _branches(anchors, anchor, total), *(line + pad for line in lines)], total, anchor)


def _branches(anchors: list[int], anchor: int, width: int) -> str:
    """The line between a name and its parts."""
    row = [" "] * width
    if len(anchors) == 1:
        row[anchors[0]] = "│"
        return "".join(row)
    for column in range(anchors[0], anchors[-1] + 1):
        row[column] = "─"
    for column in anchors:
        row[column] = "┬"
    row[anchors[0]], row[anchors[-1]] = "┌", "┐"
    row[anchor] = {"─": "┴", "┬": "┼", "┌": "├", "┐": "┤"}[row[anchor]]
    return "".join(row)
