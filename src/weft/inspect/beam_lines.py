"""A beam tree for a terminal: the best text runs downwards, and what left the beam branches off to the right."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from rich.cells import cell_len
from rich.text import Text

from weft.charts import readable
from weft.inspect.beam_chart import show_share
from weft.inspect.search_tree import TreeNode
from weft.inspect.terminal import cut

if TYPE_CHECKING:
    from weft.inspect.beam_tree import BeamTree

STYLES: Final = {1: "bold #e69f00"}
LISTED_STYLE: Final = "bold #56b4e9"
MAX_DEPTH: Final = 10
"""Levels of indentation; deeper branches are drawn at this one."""


def tree_lines(view: BeamTree, width: int) -> list[Text]:
    """Return the tree and the n-best list."""
    lines = [Text(cut_to(view.title, width), style="bold")]
    lines.append(Text("The probability stands before each token; ✂ is the step at which it was pruned.", style="dim"))
    return [*lines, *_branches(view, width), Text(), *_list(view, width)]


def _branches(view: BeamTree, width: int) -> list[Text]:
    """Return the lines of the tree. The longest child is continued below; the others branch off before it."""
    children, lines = view.tree.children(), list[Text]()
    stack = [(view.tree.nodes[0], 0, False)]
    while stack:
        node, depth, branches_off = stack.pop()
        chain = _chain(node, children)
        lines += _chain_lines(view, chain, depth, width, branches_off=branches_off)
        below = _ordered([one for one in children[chain[-1].number] if one.state != "dropped"])
        # The stack draws its last entry first, so the trunk comes after all that branch off.
        stack += [(one, depth + (number > 0), number > 0) for number, one in enumerate(below)]
    return lines


def _ordered(nodes: list[TreeNode]) -> list[TreeNode]:
    """Return the one on the way to the best text first, then those that lasted longest."""
    return sorted(nodes, key=lambda one: (one.rank or math.inf, -one.until, -one.sum))


def _chain(node: TreeNode, children: list[list[TreeNode]]) -> list[TreeNode]:
    """Return the nodes from this one up to the next fork or leaf."""
    chain = [node]
    while len(below := [one for one in children[chain[-1].number] if one.state != "dropped"]) == 1:
        chain.append(below[0])
    return chain


def _chain_lines(view: BeamTree, chain: list[TreeNode], depth: int, width: int, *, branches_off: bool) -> list[Text]:
    """Return a chain of tokens, wrapped below itself."""
    bars = "│  " * min(depth, MAX_DEPTH)
    lead = f"{bars[:-3]}├─ " if branches_off else f"{bars}● "
    parts = [_token(view, node) for node in chain]
    if (end := view.tree.pruned_at(chain[-1])) is not None:
        parts.append(Text(f"✂ {end}", style="dim red"))
    lines, line, count = list[Text](), Text().append(lead, style="dim"), 0
    for part in parts:
        if count and cell_len(line.plain) + 2 + cell_len(part.plain) > width:
            lines.append(line)
            line, count = Text().append(f"{bars}  ", style="dim"), 0
        line.append("  " if count else "").append_text(part)
        count += 1
    return [*lines, line]


def _token(view: BeamTree, node: TreeNode) -> Text:
    """Return a probability and a token; an end has its place in the list instead of a word."""
    if node.parent < 0:
        return Text().append("⟨start⟩", style="bold")
    faded = view.tree.pruned_at(node) is not None
    style = "dim" if faded else STYLES.get(node.rank or 0, LISTED_STYLE if node.rank else "")
    found = Text().append(show_share(math.exp(node.log_probability)), style="dim")
    if node.state == "finished":
        leaf = next((leaf for leaf in view.leaves if leaf.node == node.number), None)
        ending = f"■ #{leaf.rank} score {leaf.score:.3f}" if leaf else f"■ sum {node.sum:.3f}"
        return found.append(f" {ending}", style=style)
    return found.append(f" {readable(node.text)}", style=style)


def _list(view: BeamTree, width: int) -> list[Text]:
    """Return the n-best list."""
    lines = [Text(f"{'':4}{'score':>9}{'probability':>13}  text", style="dim")]
    for leaf in view.leaves:
        style = STYLES.get(leaf.rank, LISTED_STYLE)
        line = Text().append(f"#{leaf.rank}".ljust(4), style=style)
        line.append(f"{leaf.score:9.3f}{math.exp(leaf.sum):13.3g}  ")
        text = readable(leaf.text) + ("" if leaf.finished else " …")
        lines.append(line.append(text, style=style))
    if not view.leaves:
        lines.append(Text("no text is possible with these settings"))
    return lines


def cut_to(text: str, width: int) -> str:
    """Return a text of at most so many columns."""
    return text if cell_len(text) <= width else f"{cut(text, width - 1).rstrip()}…"
