"""Draws trees as SVG, with a small layout of its own: parts side by side, a name above the middle of its parts."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Final

from rich.cells import cell_len

from weft.console import visible
from weft.grammar.tree import Tree

FONT_SIZE, CHARACTER, LEVEL, GAP, MARGIN = 16.0, 9.0, 56.0, 18.0, 16.0
"""Sizes in pixels: of the font, the usual width of a character in it, of a level, between parts, around the picture."""

STYLE: Final = (
    "text{font:16px sans-serif;text-anchor:middle;fill:#222}.word{font-style:italic;fill:#06c}line{stroke:#888}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.word{fill:#6af}}"
)


def draw_svg(trees: Iterable[Tree]) -> str:
    """One picture of some trees, below each other. Texts are escaped; the file contains no script."""
    parts: list[str] = []
    top, widest = MARGIN, 0.0
    for tree in trees:
        drawn, width, height = _draw(tree)
        parts.append(f'<g transform="translate({MARGIN:g},{top:g})">{drawn}</g>')
        top, widest = top + height + LEVEL / 2, max(widest, width)
    size = f"{widest + 2 * MARGIN:g}", f"{top - LEVEL / 2 + MARGIN:g}"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {" ".join(size)}" '
        f'width="{size[0]}" height="{size[1]}">\n'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _draw(tree: Tree) -> tuple[str, float, float]:
    """The elements of a tree, and its width and height."""
    nodes = list(tree.preorder())
    labels = [node if isinstance(node, str) else node.label for node, _, _ in nodes]
    own = [CHARACTER * max(cell_len(visible(label)), 1) for label in labels]
    below: list[list[int]] = [[] for _ in nodes]
    for number, (_, _, parent) in enumerate(nodes):
        if parent >= 0:
            below[parent].append(number)
    # Widths from the leaves up, then positions from the root down; parents come before children in the list.
    widths = own[:]
    for number in range(len(nodes) - 1, -1, -1):
        widths[number] = max(own[number], sum(widths[child] + GAP for child in below[number]) - GAP)
    left, x = [0.0] * len(nodes), [0.0] * len(nodes)
    for number in range(len(nodes)):
        place = left[number] + (widths[number] - sum(widths[child] + GAP for child in below[number]) + GAP) / 2
        for child in below[number]:
            left[child], place = place, place + widths[child] + GAP
    for number in range(len(nodes) - 1, -1, -1):
        children = below[number]
        x[number] = (x[children[0]] + x[children[-1]]) / 2 if children else left[number] + widths[number] / 2
    lines, texts = [], []
    for number, (node, depth, parent) in enumerate(nodes):
        y = FONT_SIZE + LEVEL * depth
        if parent >= 0:
            above = y - LEVEL + 6
            lines.append(f'<line x1="{x[parent]:g}" y1="{above:g}" x2="{x[number]:g}" y2="{y - FONT_SIZE:g}"/>')
        kind = ' class="word"' if isinstance(node, str) else ""
        texts.append(f'<text{kind} x="{x[number]:g}" y="{y:g}">{escape(visible(labels[number]))}</text>')
        if isinstance(node, Tree) and not node.children:
            texts.append(f'<text x="{x[number]:g}" y="{y + FONT_SIZE * 1.3:g}">ε</text>')
    depth = max(depth for _, depth, _ in nodes)
    return "".join(lines + texts), widths[0], FONT_SIZE * 2.5 + LEVEL * depth
