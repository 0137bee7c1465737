"""An Earley chart parser (Earley, 1970): every context-free grammar, with left recursion and empty rules.

A state is a rule with a dot, A -> α · β. The item (state, i) at position k says that α derives the words i+1 … k.

    predict    an item before the name B at k: B -> · γ from k, for every rule of B that can begin with the next word
    scan       an item before the next word: the dot moves over it, at k + 1
    complete   A is found from i to k: the dot moves over it in every item at i that stands before A

A name that derives nothing is also skipped at once (Aycock and Horspool, 2002), so one pass over each position finds
all items. Their number is at most the states times n²/2 for n words, whatever the number of trees.

Right recursion is linear (Leo, 1991): where only one item A -> α · B stands before B at i, whatever completes B from i
completes A too, and so on up a chain. Only the top of the chain becomes an item; `completed` adds the rest on request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final, TypeAlias

from weft.errors import DataError
from weft.grammar.rules import Grammar, Symbol, Terminal
from weft.limits import CHART_ITEMS, CHART_STEPS

END: Final = -1
"""The symbol after the dot of a state whose dot is at the end; also the word after the last, and unknown words."""

Complete: TypeAlias = dict[int, dict[int, list[int]]]
"""By name and origin: the rules by which the name derives the words from there to a position."""


class GrammarTables:
    """A grammar in numbers. Names are 0 … N-1, words follow; the states of a rule follow each other.

    after[state] is the symbol after the dot, or END. rule_of[state] is the number of the rule.
    """

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.names = len(grammar.names)
        symbols: list[Symbol] = [*grammar.names, *map(Terminal, grammar.words)]
        self.number: dict[Symbol, int] = {symbol: number for number, symbol in enumerate(symbols)}
        self.symbols = symbols
        self.start = self.number[grammar.start]
        self.right: list[tuple[int, ...]] = [tuple(self.number[one] for one in rule.right) for rule in grammar.rules]
        self.left = [self.number[rule.left] for rule in grammar.rules]
        self.first: list[int] = []  # by rule: its state with the dot at the beginning
        self.after: list[int] = []
        self.rule_of: list[int] = []
        for rule, right in enumerate(self.right):
            self.first.append(len(self.after))
            self.after += [*right, END]
            self.rule_of += [rule] * (len(right) + 1)
        self.nullable, self._empty_rules = self._find_nullable()
        self._parents = self._find_parents()
        ends = zip(self.left, self.right, strict=True)
        self.in_chains = {left for left, right in ends if right and right[-1] < self.names}
        """The names of rules that end with a name: only these can be found by the completion of another."""
        self._viable: dict[int, dict[int, list[int]]] = {}

    def _find_nullable(self) -> tuple[set[int], list[int]]:
        """The names that derive nothing, and the rules whose right side does."""
        uses: dict[int, list[int]] = {}
        missing = [len(right) for right in self.right]
        for rule, right in enumerate(self.right):
            for symbol in right:
                uses.setdefault(symbol, []).append(rule)
        found: set[int] = set()
        rules = [rule for rule, count in enumerate(missing) if count == 0]
        for rule in rules:  # grows while it is read
            if self.left[rule] not in found:
                found.add(self.left[rule])
                for user in uses.get(self.left[rule], ()):
                    missing[user] -= 1
                    if missing[user] == 0:
                        rules.append(user)
        return found, rules

    def _find_parents(self) -> dict[int, list[int]]:
        """By symbol: the rules whose right side can begin with it."""
        parents: dict[int, list[int]] = {}
        for rule, right in enumerate(self.right):
            for symbol in right:
                parents.setdefault(symbol, []).append(rule)
                if symbol not in self.nullable:
                    break
        return parents

    def viable(self, word: int) -> dict[int, list[int]]:
        """By name: the first states of its rules that can begin with a word, or derive nothing."""
        if word not in self._viable:
            rules, agenda, seen = set(self._empty_rules), [word], {word}
            while agenda:
                for rule in self._parents.get(agenda.pop(), ()):
                    rules.add(rule)
                    if self.left[rule] not in seen:
                        seen.add(self.left[rule])
                        agenda.append(self.left[rule])
            found: dict[int, list[int]] = {}
            for rule in sorted(rules):
                found.setdefault(self.left[rule], []).append(self.first[rule])
            self._viable[word] = found
        return self._viable[word]


class Chart:
    """The items of a sentence. An item is coded as i · S + state for S states, so moving the dot adds one.

    items[k] are the codes at position k, without those that `completed` adds. `reached` is the last position that has
    items: the number of words that begin some sentence of the grammar.
    """

    def __init__(self, tables: GrammarTables, words: Sequence[str]) -> None:
        self.tables, self.length = tables, len(words)
        self.words = [tables.number.get(Terminal(word), END) for word in words]
        self.items: list[set[int]] = []
        self._complete: list[Complete] = []
        self._waiting: list[dict[int, list[int]]] = []
        self._tops: list[dict[int, int | None]] = []  # by position and name: the completed item at the top of its chain
        self._jumps: list[list[tuple[int, int]]] = []  # by position: names and origins where a chain was left out
        self._steps = size = 0
        scanned = list(tables.viable(self._word(0)).get(tables.start, ()))
        for k in range(self.length + 1):
            scanned = self._fill(k, scanned)
            size += len(self.items[k])
            if size > CHART_ITEMS or self._steps > CHART_STEPS:
                over = f"{CHART_ITEMS:,} items" if size > CHART_ITEMS else f"{CHART_STEPS:,} steps"
                what = f"over {over} in the chart after {k} of {self.length} words"
                raise DataError(what, cure="parse shorter sentences, or use a less ambiguous grammar")
            if not scanned:
                break
        self.reached = len(self.items) - 1

    @property
    def accepted(self) -> bool:
        """Whether the words are a sentence of the grammar."""
        return self.reached == self.length and 0 in self._complete[self.length].get(self.tables.start, {})

    def _word(self, k: int) -> int:
        return self.words[k] if k < self.length else END

    def _fill(self, k: int, agenda: list[int]) -> list[int]:
        """Find all items at k from those that were scanned there; return those that are scanned at k + 1."""
        tables, word = self.tables, self._word(k)
        after, rule_of, left, nullable, names = (
            tables.after,
            tables.rule_of,
            tables.left,
            tables.nullable,
            tables.names,
        )
        states, viable = len(after), tables.viable(word)
        here, items = k * states, set(agenda)
        waiting: dict[int, list[int]] = {}
        complete: Complete = {}
        jumps: list[tuple[int, int]] = []
        self.items.append(items)
        self._complete.append(complete)
        self._waiting.append(waiting)
        self._tops.append({})
        self._jumps.append(jumps)
        following: list[int] = []
        while agenda:
            item = agenda.pop()
            origin, state = divmod(item, states)
            symbol = after[state]
            found: list[int] = []
            if symbol == END:
                rule = rule_of[state]
                name = left[rule]
                origins = complete.setdefault(name, {})
                if origin in origins:
                    origins[origin].append(rule)
                    continue
                origins[origin] = [rule]
                top = self._top(origin, name) if origin < k else None  # items at k may still come
                if top is None:
                    found = [one + 1 for one in self._waiting[origin].get(name, ())]
                    self._steps += len(found)
                else:
                    found = [top]
                    jumps.append((name, origin))
            elif symbol >= names:
                if symbol == word:
                    following.append(item + 1)
            else:
                if symbol in waiting:
                    waiting[symbol].append(item)
                else:
                    waiting[symbol] = [item]
                    found = [here + first for first in viable.get(symbol, ())]
                if symbol in nullable:
                    found.append(item + 1)
            for one in found:
                if one not in items:
                    items.add(one)
                    agenda.append(one)
        return following

    def _only_parent(self, origin: int, name: int) -> tuple[int, int] | None:
        """The rule, and its origin, that a name from this origin completes in any case: it ends the rule of the only
        item before it. None if there are other items, or if the name may be the whole sentence."""
        waiting = self._waiting[origin].get(name, ())
        if len(waiting) != 1 or (name == self.tables.start and origin == 0):
            return None
        above, state = divmod(waiting[0], len(self.tables.after))
        return (self.tables.rule_of[state], above) if self.tables.after[state + 1] == END else None

    def _top(self, origin: int, name: int) -> int | None:
        """The completed item at the top of the chain above a name from this origin; None if there is no chain."""
        tables, tops, path = self.tables, self._tops, list[tuple[int, int, int | None]]()
        while name not in tops[origin]:
            at, one = origin, name
            tops[at][one] = item = None
            if parent := self._only_parent(at, one):
                rule, origin = parent
                name = tables.left[rule]
                item = origin * len(tables.after) + tables.first[rule] + len(tables.right[rule])
            path.append((at, one, item))
        top = tops[origin][name]
        for at, one, item in reversed(path):
            tops[at][one] = top = item if top is None else top
        return top

    def completed(self, k: int, wanted: int) -> dict[int, list[int]]:
        """By origin i: the rules by which a name derives the words i+1 … k."""
        complete, jumps = self._complete[k], self._jumps[k]
        while jumps and wanted in self.tables.in_chains:
            name, origin = jumps.pop()
            while parent := self._only_parent(origin, name):
                rule, origin = parent
                name = self.tables.left[rule]
                rules = complete.setdefault(name, {}).setdefault(origin, [])
                known = bool(rules)
                if rule not in rules:
                    rules.append(rule)
                if known:  # by an item or by another chain, and so is all above it
                    break
        return complete.get(wanted, {})

    @cached_property
    def positions(self) -> dict[int, list[int]]:
        """By item before a name: all positions that have it, in their order."""
        found: dict[int, list[int]] = {}
        for k, waiting in enumerate(self._waiting):
            for items in waiting.values():
                for item in items:
                    found.setdefault(item, []).append(k)
        return found

    def expected(self) -> list[tuple[str | None, str]]:
        """The words that could stand at `reached`: each with its name if the name has rules of one word, else None."""
        tables = self.tables
        states = len(tables.after)
        names = [tables.start] if self.reached == 0 else []
        found: dict[tuple[str | None, str], None] = {}
        for item in sorted(self.items[self.reached]):
            symbol = tables.after[item % states]
            if symbol >= tables.names:
                rule = tables.rule_of[item % states]
                found[self._named(rule, symbol)] = None
            elif symbol != END:
                names.append(symbol)
        rules: dict[int, list[int]] = {}
        for rule, left in enumerate(tables.left):
            rules.setdefault(left, []).append(rule)
        seen = set(names)
        for name in names:  # grows while it is read
            for rule in rules[name]:
                for symbol in tables.right[rule]:
                    if symbol >= tables.names:
                        found[self._named(rule, symbol)] = None
                    elif symbol not in seen:
                        seen.add(symbol)
                        names.append(symbol)
                    if symbol not in tables.nullable:
                        break
        return list(found)

    def _named(self, rule: int, symbol: int) -> tuple[str | None, str]:
        """The expected word `symbol` of a rule, with the left side of a rule of one word."""
        grammar, word = self.tables.grammar, self.tables.symbols[symbol]
        assert isinstance(word, Terminal)
        return (grammar.rules[rule].left if len(self.tables.right[rule]) == 1 else None), word.text
