"""The shared forest of all trees of a sentence: each part of a tree is stored once, however many trees contain it.

A node is a word, a name over the words i+1 … k, or the first symbols of a rule over them, so that a choice has at most
two children and the number of choices grows with n³ at most. A choice is one way to derive a node: a rule, or NO_RULE
for the first symbols of one, and its children. Trees are counted without making any of them.

A node that contains itself, by rules such as A -> A or A -> A B with an empty B, means infinitely many trees.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Final, TypeAlias

from weft.errors import DataError
from weft.grammar.chart import Chart
from weft.grammar.rules import Terminal
from weft.limits import CHART_ITEMS

NO_RULE: Final = -1


Choice: TypeAlias = tuple[int, tuple[int, ...]]
"""One way to derive a node: the number of a rule, or NO_RULE, and the children."""


class Numbering(dict[int, int]):
    """Numbering for the keys of nodes, in the order in which they are first looked up."""

    def __init__(self) -> None:
        super().__init__()
        self.keys_found: list[int] = []

    def __missing__(self, key: int) -> int:
        number = self[key] = len(self.keys_found)
        self.keys_found.append(key)
        return number


class Forest:
    """Nodes by number, the root is 0. choices[node] is empty for a word; symbol[node] is negative for a part of a rule.

    The order of choices is that of the rules in the grammar, then that of the position where the last child begins.
    """

    def __init__(self, chart: Chart) -> None:
        self._chart, self._tables = chart, chart.tables
        # The key of a node is (code · m + i) · m + k for m positions. The code is S + its symbol, or S - 1 - state for
        # the symbols before the dot of one of S states.
        self._positions, self._states = chart.length + 1, len(chart.tables.after)
        self._numbers = Numbering()
        self.choices: list[list[Choice]] = []
        self.symbol: list[int] = []
        _ = self._numbers[((self._states + self._tables.start) * self._positions) * self._positions + chart.length]
        total = 0
        for key in self._numbers.keys_found:  # grows while it is read
            rest, k = divmod(key, self._positions)
            code, i = divmod(rest, self._positions)
            self.symbol.append(code - self._states)
            self.choices.append(self._choices(code - self._states, i, k))
            total += len(self.choices[-1])
            if total > CHART_ITEMS:
                what = f"over {CHART_ITEMS:,} branches in the forest of all trees"
                raise DataError(what, cure="parse shorter sentences, or use a less ambiguous grammar")

    def __len__(self) -> int:
        return len(self.choices)

    def label(self, node: int) -> str:
        """The name or the word of a node."""
        symbol = self._tables.symbols[self.symbol[node]]
        return symbol.text if isinstance(symbol, Terminal) else symbol

    def _choices(self, symbol: int, i: int, k: int) -> list[Choice]:
        tables = self._tables
        if symbol < 0:
            return self._splits(NO_RULE, -1 - symbol, i, k)
        found: list[Choice] = []
        if symbol < tables.names:
            for rule in sorted(self._chart.completed(k, symbol)[i]):
                found += self._splits(rule, tables.first[rule] + len(tables.right[rule]), i, k)
        return found

    def _splits(self, rule: int, state: int, i: int, k: int) -> list[Choice]:
        """The choices for the symbols before the dot of a state: children are all but the last symbol, and the last."""
        tables, items = self._tables, self._chart.items
        dot = state - tables.first[tables.rule_of[state]]
        if dot == 0:
            return [(rule, ())]
        last = tables.after[state - 1]
        before = i * len(tables.after) + state - 1
        if last < tables.names:
            complete, positions = self._chart.completed(k, last), self._chart.positions.get(before, ())
            # Either may be far longer than the other.
            if len(positions) <= len(complete):
                starts = [j for j in positions if j in complete]
            else:
                starts = sorted([j for j in complete if before in items[j]])
        else:
            starts = [k - 1] if k > i and before in items[k - 1] else []
        numbers, m = self._numbers, self._positions
        right = (self._states + last) * m * m + k  # the key of the last symbol over j+1 … k is right + j · m
        if dot == 1:
            return [(rule, (numbers[right + j * m],)) for j in starts]
        # One symbol needs no node of its own.
        first = tables.after[state - 2] if dot == 2 else -state
        left = ((self._states + first) * m + i) * m  # that of the others over i+1 … j is left + j
        return [(rule, (numbers[left + j], numbers[right + j * m])) for j in starts]

    @cached_property
    def components(self) -> list[list[int]]:
        """The nodes in groups, children first; nodes that contain each other are in one group (Tarjan, 1972)."""
        order = [-1] * len(self)  # when a node was entered
        low = [0] * len(self)
        on_stack = bytearray(len(self))
        stack: list[int] = []
        found: list[list[int]] = []
        entered = 0
        calls: list[tuple[int, Iterator[int]]] = []

        def enter(node: int) -> None:
            nonlocal entered
            order[node] = low[node] = entered
            entered += 1
            stack.append(node)
            on_stack[node] = 1
            calls.append((node, iter([child for _, children in self.choices[node] for child in children])))

        enter(0)
        while calls:
            node, children = calls[-1]
            for child in children:
                if order[child] < 0:
                    enter(child)
                    break
                if on_stack[child]:
                    low[node] = min(low[node], order[child])
            else:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
                if low[node] == order[node]:
                    cut = stack.index(node) if stack[-1] != node else len(stack) - 1
                    group = stack[cut:]
                    del stack[cut:]
                    for one in group:
                        on_stack[one] = 0
                    found.append(group)
        return found

    def is_cycle(self, group: list[int]) -> bool:
        """Whether the nodes of a group contain themselves."""
        return len(group) > 1 or any(group[0] in children for _, children in self.choices[group[0]])

    @cached_property
    def count(self) -> float:
        """The number of trees, exact as an int; math.inf if a node contains itself."""
        counts = [1] * len(self)
        for group in self.components:
            if self.is_cycle(group):
                return math.inf
            (node,) = group
            if choices := self.choices[node]:
                counts[node] = sum(math.prod([counts[child] for child in children]) for _, children in choices)
        return counts[0]
