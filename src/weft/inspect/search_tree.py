"""The tree of a beam search: a node for each token that was kept, ended a text, or was considered and dropped.

sum(y_1 … y_t) = Σ log p(y_i | y_1 … y_{i-1}, x)          the sum of the edges from the start to a node
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from weft.decoding import DecodeConfig, Proposal, SearchTrace, TracedStep
from weft.tasks.generation import Candidate
from weft.text import EOS

State = Literal["start", "kept", "finished", "dropped"]

BYTES_OF_CHARACTER = 4
"""Tokens before a token that may hold bytes of the same character."""


@dataclass(frozen=True)
class TreeNode:
    """A token in the tree; the edge to it from its parent has the token's probability."""

    number: int
    """Its index in the list of nodes; a parent comes before its children."""
    parent: int
    """The number of the node that it extends; -1 for the start."""
    step: int
    group: int
    place: int | None
    """Its place in the beam, 0 the best; None for a token that ended or was dropped."""
    token: int
    text: str
    """The token, readable."""
    log_probability: float
    """log p(token | the path to it), of the model."""
    sum: float
    """The log-probability of the path, of the model."""
    ranked: float
    """The sum that the search ranks by: with penalties it is not `sum`."""
    state: State
    until: int = 0
    """The last step at which the node or a descendant was in the beam; the last of all if one of them finished, or was
    still in the beam at the end."""
    rank: int | None = None
    """The best place in the n-best list of a text that goes through this node, from 1."""


class Leaf(NamedTuple):
    """A text of the n-best list."""

    rank: int
    node: int
    """The number of its last node."""
    text: str
    score: float
    """sum / length^α, the end token counted."""
    sum: float
    length: int
    finished: bool
    """Whether the model ended it, and not the length limit."""
    returned: bool
    """Whether `Run.predict` returns it with these settings; others were finished too, and ranked lower."""


class SearchTree(NamedTuple):
    """All nodes, the start first."""

    nodes: tuple[TreeNode, ...]
    steps: int

    def children(self) -> list[list[TreeNode]]:
        """Return the children of each node."""
        found: list[list[TreeNode]] = [[] for _ in self.nodes]
        for node in self.nodes[1:]:
            found[node.parent].append(node)
        return found

    def path(self, number: int) -> list[TreeNode]:
        """Return the nodes from the first token to this node."""
        found: list[TreeNode] = []
        while number > 0:
            found.append(self.nodes[number])
            number = self.nodes[number].parent
        return found[::-1]

    def pruned_at(self, node: TreeNode) -> int | None:
        """Return the step at which the last text through a kept node left the beam, or None if it never did."""
        return node.until + 1 if node.state == "kept" and node.until < self.steps else None


def grow_tree(trace: SearchTrace, pieces: Callable[[Sequence[int]], list[str]]) -> SearchTree:
    """Return the tree of a recorded search; `pieces` makes tokens readable."""
    grower = _Grower(pieces)
    for number, step in enumerate(trace.steps, start=1):
        for one in step:
            grower.add(number, one)
    return SearchTree(tuple(_lifetimes(grower.nodes, len(trace.steps))), len(trace.steps))


class _Grower:
    """The nodes so far, and the node in each place of each beam."""

    def __init__(self, pieces: Callable[[Sequence[int]], list[str]]) -> None:
        self.pieces = pieces
        self.nodes = [TreeNode(0, -1, 0, 0, 0, -1, "", 0.0, 0.0, 0.0, "start")]
        self.texts: list[tuple[int, ...]] = [()]
        """The last tokens of the path to each node."""
        self.places: dict[tuple[int, int], int] = {}

    def add(self, number: int, step: TracedStep) -> None:
        """Add one step of one beam."""
        parents = {place: node for (group, place), node in self.places.items() if group == step.group} or {0: 0}
        for proposal in step.ended:
            self._node(number, step.group, None, proposal, parents, "finished")
        kept = {
            place: self._node(number, step.group, place, proposal, parents, "kept")
            for place, proposal in enumerate(step.kept)
            if proposal is not None
        }
        for proposal in step.dropped:
            self._node(number, step.group, None, proposal, parents, "dropped")
        for place in range(len(step.kept)):
            self.places.pop((step.group, place), None)
        self.places |= {(step.group, place): node for place, node in kept.items()}

    def _node(
        self, step: int, group: int, place: int | None, found: Proposal, parents: dict[int, int], state: State
    ) -> int:
        parent = self.nodes[parents[found.place]]
        recent = (*self.texts[parent.number], found.token)[-BYTES_OF_CHARACTER:]
        text = self.pieces(recent)[-1]
        total, number = parent.sum + found.log_probability, len(self.nodes)
        node = TreeNode(
            number,
            parent.number,
            step,
            group,
            place,
            found.token,
            text,
            found.log_probability,
            total,
            found.sum,
            state,
        )
        self.nodes.append(node)
        self.texts.append(recent)
        return number


def _lifetimes(nodes: list[TreeNode], steps: int) -> list[TreeNode]:
    """Set the last step of each node, from the leaves up."""
    last_step = {node.group: node.step for node in nodes}  # a group may stop before the others
    until = [0] * len(nodes)
    for node in reversed(nodes):
        if node.state == "dropped":
            until[node.number] = node.step - 1
            continue
        stays = node.state == "finished" or (node.state == "kept" and node.step == last_step[node.group])
        until[node.number] = max(until[node.number], steps if stays else node.step)
        if node.parent >= 0:
            until[node.parent] = max(until[node.parent], until[node.number])
    return [replace(node, until=until[node.number]) for node in nodes]


def list_leaves(
    tree: SearchTree,
    returned: Sequence[Candidate],
    decode: DecodeConfig,
    *,
    names: Callable[[Sequence[int]], list[str]],
    show: Callable[[Sequence[int]], str],
) -> tuple[SearchTree, tuple[Leaf, ...]]:
    """Return the n-best list: the texts that the search returned, then the best others that were finished.

    A text is found in the tree by the names of its tokens; `show` makes the text of those that were not returned.
    """
    ends: dict[tuple[tuple[str, ...], bool], tuple[TreeNode, list[int]]] = {}
    extended = {node.parent for node in tree.nodes if node.state == "kept"}
    for node in tree.nodes:
        # A text that the limit cut ends with a kept token that nothing extends.
        if node.state == "finished" or (node.state == "kept" and node.number not in extended):
            finished, path = node.state == "finished", [one.token for one in tree.path(node.number)]
            path = path[:-1] if finished and path[-1] == EOS else path
            ends.setdefault((tuple(names(path)), finished), (node, path))
    leaves: list[Leaf] = []
    for found in returned:
        node, _ = ends.pop((found.tokens, found.finished), (tree.nodes[0], []))
        logs = found.log_probabilities
        own = (found.text, found.score, math.fsum(logs), len(logs), found.finished)
        leaves.append(Leaf(len(leaves) + 1, node.number, *own, returned=True))
    others = [(node, path) for node, path in ends.values() if node.state == "finished"]
    others.sort(key=lambda one: -one[0].ranked / one[0].step ** decode.length_penalty)
    for node, path in others[: max(0, decode.beam - len(leaves))]:
        own = (show(path), node.sum / node.step**decode.length_penalty, node.sum, node.step, True)
        leaves.append(Leaf(len(leaves) + 1, node.number, *own, returned=False))
    return _rank_nodes(tree, [leaf.node for leaf in leaves]), tuple(leaves)


def _rank_nodes(tree: SearchTree, leaves: Sequence[int]) -> SearchTree:
    """Return the tree with the rank of the best text through each node; `leaves` are the ends of the n-best list."""
    ranks: dict[int, int] = {}
    for rank, leaf in enumerate(leaves, start=1):
        for node in (tree.nodes[0], *tree.path(leaf)):
            ranks.setdefault(node.number, rank)
    return tree._replace(nodes=tuple(replace(node, rank=ranks.get(node.number)) for node in tree.nodes))
