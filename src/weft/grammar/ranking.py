"""The trees of a forest, best first: the most probable, or without probabilities the one with the fewest rules.

The cost of a tree is (-Σ log p, number of its rules), compared in that order; a subtree never costs more than its tree,
and a tree that contains its own node again costs more than that node, so that cycles are harmless.

The best tree of each node is found children first (Viterbi); inside a cycle the costs are relaxed until none falls. The
next trees are found lazily (Huang and Chiang, 2005, algorithm 3): behind a tree in the ranking of its node stand those
in which one child is replaced by the next of its own ranking.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

from weft.grammar.forest import Forest
from weft.grammar.rules import Grammar
from weft.grammar.tree import Node, Tree

Cost: TypeAlias = tuple[float, int]


class Ranked(NamedTuple):
    """A tree of a node: its cost, the number of the choice, and the rank of each child among the child's trees."""

    cost: Cost
    choice: int
    ranks: tuple[int, ...]


class Ranking:
    """The trees of a forest in the order of their costs; among equals, the order of the choices decides."""

    def __init__(self, forest: Forest, grammar: Grammar) -> None:
        self.forest, self.grammar = forest, grammar
        # A single rule of a name may have 1.005, within the tolerance; a cost below zero would break the ranking.
        self.chances = [1.0 if rule.probability is None else min(rule.probability, 1.0) for rule in grammar.rules]
        self.costs: list[Cost] = [(-math.log(chance), 1) for chance in self.chances]
        self.costs.append((0.0, 0))  # NO_RULE
        self.best = self._best()
        self._found: dict[int, list[Ranked]] = {}
        self._heaps: dict[int, list[Ranked]] = {}
        self._next: dict[int, list[tuple[Ranked, int]]] = {}  # trees whose child at a position is to be replaced
        self._seen: dict[int, set[tuple[int, tuple[int, ...]]]] = {}

    def trees(self) -> Iterator[Tree]:
        """Yield all trees; without end if there are infinitely many."""
        rank = 0
        while self._ensure(0, rank):
            yield self._tree(rank)
            rank += 1

    def _best(self) -> list[Cost]:
        """The cost of the best tree of each node."""
        best: list[Cost] = [(0.0, 0) if not choices else (math.inf, 0) for choices in self.forest.choices]
        for group in self.forest.components:
            changed = True
            while changed:
                changed = False
                for node in group:
                    for rule, children in self.forest.choices[node]:
                        cost, size = self.costs[rule]
                        for child in children:
                            cost, size = cost + best[child][0], size + best[child][1]
                        if (cost, size) < best[node]:
                            best[node] = cost, size
                            changed = len(group) > 1
        return best

    def _ensure(self, node: int, rank: int) -> bool:
        """Find the trees of a node up to a rank (from 0); False if it has fewer."""
        stack = [(node, rank)]
        while stack:
            node, rank = stack[-1]
            if node not in self._found:
                self._begin(node)
            found, heap, following = self._found[node], self._heaps[node], self._next[node]
            if len(found) > rank:
                stack.pop()
            elif following:
                last, position = following[-1]
                child = self.forest.choices[node][last.choice][1][position]
                wanted = last.ranks[position] + 1
                if len(self._found.get(child, ())) <= wanted and not self._exhausted(child):
                    stack.append((child, wanted))
                    continue
                following.pop()
                self._replace(node, last, position)
            elif heap:
                found.append(heapq.heappop(heap))
                following += [(found[-1], position) for position in reversed(range(len(found[-1].ranks)))]
            else:
                stack.pop()
        return len(self._found[node]) > rank

    def _exhausted(self, node: int) -> bool:
        return node in self._found and not self._heaps[node] and not self._next[node]

    def _begin(self, node: int) -> None:
        """Put the best tree of each choice into the heap; a word has one tree."""
        heap = [
            Ranked(self._sum(rule, [self.best[child] for child in children]), number, (0,) * len(children))
            for number, (rule, children) in enumerate(self.forest.choices[node])
        ]
        heapq.heapify(heap)
        self._heaps[node], self._next[node] = heap, []
        self._found[node] = [] if heap else [Ranked((0.0, 0), 0, ())]
        self._seen[node] = {(one.choice, one.ranks) for one in heap}

    def _replace(self, node: int, last: Ranked, position: int) -> None:
        """Put a tree into the heap in which one child is replaced by the next of its ranking."""
        rule, children = self.forest.choices[node][last.choice]
        ranks = (*last.ranks[:position], last.ranks[position] + 1, *last.ranks[position + 1 :])
        if len(self._found[children[position]]) <= ranks[position] or (last.choice, ranks) in self._seen[node]:
            return
        self._seen[node].add((last.choice, ranks))
        pairs = zip(children, ranks, strict=True)
        costs = [self._found[child][rank].cost if rank else self.best[child] for child, rank in pairs]
        heapq.heappush(self._heaps[node], Ranked(self._sum(rule, costs), last.choice, ranks))

    def _sum(self, rule: int, parts: list[Cost]) -> Cost:
        cost, size = self.costs[rule]
        for more_cost, more_size in parts:
            cost, size = cost + more_cost, size + more_size
        return cost, size

    def _tree(self, rank: int) -> Tree:
        """The tree of the root with a rank, built from the leaves up."""
        forest = self.forest
        made: list[Node] = []  # finished parts, the next one to be used last
        # A node is entered with width -1, which pushes its children, and left with their number, which joins them.
        agenda: list[tuple[int, int, int]] = [(0, rank, -1)]
        chances: list[float] = []
        while agenda:
            node, rank_here, width = agenda.pop()
            if width >= 0:
                children = tuple(made[len(made) - width :])
                del made[len(made) - width :]
                made.append(Tree(forest.label(node), children))
                continue
            flat = self._flatten(node, rank_here)
            if flat is None:
                made.append(forest.label(node))
                continue
            rule, _ = forest.choices[node][self._found[node][rank_here].choice]
            chances.append(self.chances[rule])
            agenda.append((node, rank_here, len(flat)))
            agenda += [(child, child_rank, -1) for child, child_rank in reversed(flat)]
        tree = made[0]
        assert isinstance(tree, Tree)
        return Tree(tree.label, tree.children, tuple(chances) if self.grammar.probabilistic else None)

    def _flatten(self, node: int, rank: int) -> list[tuple[int, int]] | None:
        """The children of a name's tree with their ranks, parts of rules taken apart; None for a word."""
        if not self.forest.choices[node]:
            return None
        stack, flat = [(node, rank)], []
        inside = False
        while stack:
            one, one_rank = stack.pop()
            if inside and self.forest.symbol[one] >= 0:
                flat.append((one, one_rank))
                continue
            inside = True
            self._ensure(one, one_rank)
            ranked = self._found[one][one_rank]
            _, children = self.forest.choices[one][ranked.choice]
            stack += reversed(list(zip(children, ranked.ranks, strict=True)))
        return flat
