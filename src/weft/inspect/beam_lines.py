"""A beam tree for a terminal: the best text runs downwards, and what left the beam branches off to the right."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from rich.cells import cell_len
from rich.text import Text

from weft.charts import readable
from weft.errors import counted
from weft.inspect.beam_chart import show_share
from weft.inspect.search_tree import TreeNode
from weft.inspect.terminal import cut

if TYPE_CHECKING:
    from weft.inspect.beam_tree import BeamTree

STYLES: Final = {1: "bold #e69f00"}
FORK: Final = "├─ "
LISTED_STYLE: Final = "bold #56b4e9"
MAX_STEPS: Final = 10
"""Steps that are drawn after the end of the best text, if other texts of the n-best list are longer."""

MIN_TOKEN_COLUMNS: Final = 24
"""Columns of a line that indentation leaves to its tokens; where it cannot, its levels become narrower."""


def tree_lines(view: BeamTree, width: int) -> list[Text]:
    """Return the tree up to the end of the n-best list, and that list."""
    last = _last_step(view)
    more = view.tree.steps - last
    lines = [Text(cut_to(view.title, width), style="bold")]
    lines.append(Text("The probability stands before each token; ✂ is the step at which it was pruned.", style="dim"))
    lines += _branches(view, last, width)
    if more > 0:
        steps = f"{counted(more, 'more step')}, to step {view.tree.steps}"
        said = f"The search made {steps} (… above): --max-length bounds it, and -o tree.html draws all of it."
        lines.append(Text(said, style="dim"))
    return [*lines, Text(), *_list(view, width)]


def _last_step(view: BeamTree) -> int:
    """Return the last step to draw: the end of the n-best list, and of one much longer than the best text a part."""
    ends = [view.tree.nodes[leaf.node].step for leaf in view.leaves]
    if not any(ends):
        return min(view.tree.steps, MAX_STEPS)
    return max(ends[0], min(max(ends), ends[0] + MAX_STEPS))


class _Branch(NamedTuple):
    """Tokens up to the next fork or leaf, and how deep they are drawn."""

    chain: list[TreeNode]
    depth: int
    branches_off: bool
    goes_on: bool
    """Whether later steps continue it, which are not drawn."""


def _branches(view: BeamTree, last: int, width: int) -> list[Text]:
    """Return the lines of the tree up to a step."""
    found = list(_walk(view, last))
    depth = max(branch.depth for branch in found)
    level = max(1, min(len(FORK), (width - MIN_TOKEN_COLUMNS) // max(1, depth)))
    return [line for branch in found for line in _chain_lines(view, branch, level, width)]


def _walk(view: BeamTree, last: int) -> Iterator[_Branch]:
    """Yield the branches from above. The longest child is continued below; the others branch off before it."""
    whole = [[one for one in below if one.state != "dropped"] for below in view.tree.children()]
    children = [[one for one in below if one.step <= last] for below in whole]
    stack = [(view.tree.nodes[0], 0, False)]
    while stack:
        node, depth, branches_off = stack.pop()
        chain = _chain(node, children)
        end = chain[-1].number
        yield _Branch(chain, depth, branches_off, bool(whole[end]) and not children[end])
        # The stack draws its last entry first, so the trunk comes after all that branch off.
        stack += [(one, depth + (place > 0), place > 0) for place, one in enumerate(_ordered(children[end]))]


def _ordered(nodes: list[TreeNode]) -> list[TreeNode]:
    """Return the one on the way to the best text first, then those that lasted longest."""
    return sorted(nodes, key=lambda one: (one.rank or math.inf, -one.until, -one.sum))


def _chain(node: TreeNode, children: list[list[TreeNode]]) -> list[TreeNode]:
    """Return the nodes from this one up to the next fork or leaf."""
    chain = [node]
    while len(below := children[chain[-1].number]) == 1:
        chain.append(below[0])
    return chain


def _chain_lines(view: BeamTree, branch: _Branch, level: int, width: int) -> list[Text]:
    """Return a chain of tokens, wrapped below itself; `level` is the columns of a level of indentation."""
    bars = "│".ljust(level) * branch.depth
    lead = f"{bars[:-level]}{FORK[:level]}" if branch.branches_off else f"{bars}● "
    parts = [_token(view, node) for node in branch.chain]
    if branch.goes_on:
        parts.append(Text("…", style="dim"))
    elif (end := view.tree.pruned_at(branch.chain[-1])) is not None:
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
