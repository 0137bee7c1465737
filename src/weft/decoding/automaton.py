"""Phrases found while tokens are written: an Aho-Corasick automaton (Aho & Corasick, 1975).

A node stands for the longest end of the text that begins some phrase: one number is the progress of all phrases.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

Phrase = tuple[int, ...]
"""Tokens that stand side by side."""


class Automaton:
    """Reads one token after another, from node 0 on."""

    def __init__(self, phrases: Sequence[Phrase]) -> None:
        self.phrases = tuple(phrases)
        self._paths: list[Phrase] = [()]
        self._children: list[dict[int, int]] = [{}]
        self._shorter = [0]
        """For each node the node of the next shorter end of the text that begins a phrase."""
        for phrase in self.phrases:
            self._grow(phrase)
        # Shorter paths first: the node of a longer one needs theirs.
        for node in sorted(range(1, len(self._paths)), key=lambda node: len(self._paths[node])):
            *before, last = self._paths[node]
            self._shorter[node] = self.read(self._shorter[self._find(before)], last) if before else 0
        self.completing = cache(self._completing)
        self.reached = cache(self._reached)

    @property
    def size(self) -> int:
        """The number of nodes."""
        return len(self._paths)

    def read(self, node: int, token: int) -> int:
        """The node after a token."""
        while node and token not in self._children[node]:
            node = self._shorter[node]
        return self._children[node].get(token, 0)

    def read_all(self, tokens: Sequence[int]) -> int:
        """The node after some tokens."""
        node = 0
        for token in tokens:
            node = self.read(node, token)
        return node

    def _completing(self, node: int) -> tuple[int, ...]:
        """The tokens that would complete a phrase here."""
        whole = set(self.phrases)
        found = {
            token for end in self._ends(node) for token in self._children[end] if (*self._paths[end], token) in whole
        }
        return tuple(sorted(found))

    def _reached(self, node: int) -> tuple[int, ...]:
        """The number of tokens of each phrase that end the text."""
        ends = [self._paths[end] for end in self._ends(node)]
        return tuple(max(len(path) for path in ends if phrase[: len(path)] == path) for phrase in self.phrases)

    def _ends(self, node: int) -> Iterator[int]:
        """The nodes of all ends of the text that begin a phrase, the longest first, the empty one last."""
        while node:
            yield node
            node = self._shorter[node]
        yield 0

    def _grow(self, phrase: Phrase) -> None:
        node = 0
        for token in phrase:
            if token not in self._children[node]:
                self._children[node][token] = len(self._paths)
                self._paths.append((*self._paths[node], token))
                self._children.append({})
                self._shorter.append(0)
            node = self._children[node][token]

    def _find(self, path: Sequence[int]) -> int:
        node = 0
        for token in path:
            node = self._children[node][token]
        return node
