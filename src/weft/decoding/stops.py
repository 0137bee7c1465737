"""Strings at which a text stops: found in its bytes while tokens are written, also across the borders of tokens.

An automaton over bytes (`Automaton`) has read the text so far. `table` holds what each token does to it: the next node,
or `STOPS` where the token completes one of the strings. V tokens; a node of the table is a node of the automaton
together with the state of the text (`TokenSpelling`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.decoding.automaton import Automaton
from weft.text import Tokenizer
from weft.text.spelling import TokenSpelling, spelling_of

STOPS: Final = -1
"""The entry of a token that completes one of the strings."""


class StopStrings:
    """Strings at which texts stop, for the tokens of one vocabulary."""

    def __init__(self, strings: Sequence[str], spelling: TokenSpelling) -> None:
        self.strings, self.spelling = tuple(strings), spelling
        automaton = Automaton([tuple(one.encode()) for one in self.strings])
        reads = np.array([[automaton.read(node, byte) for byte in range(256)] for node in range(automaton.size)])
        whole = [len(phrase) for phrase in automaton.phrases]
        final = np.array([any(map(int.__eq__, automaton.reached(node), whole)) for node in range(automaton.size)])
        words = [_Words(added) for added in spelling.added]
        after = np.array([-1 if state is None else state for state in spelling.after])
        rows = [
            own.read(node, reads, final, np.where(after < 0, state, after), len(words))
            for node in range(automaton.size)
            for state, own in enumerate(words)
        ]
        self.table = torch.from_numpy(np.stack(rows))
        """(nodes, V) in int16."""

    def start(self, before: Sequence[int]) -> int:
        """The node before the first token of a text that continues some tokens; they count in no string."""
        return self.spelling.state(before)

    def stops(self, tokens: Sequence[int], before: Sequence[int]) -> bool:
        """Whether the text of the tokens contains one of the strings."""
        text = self.spelling.spell(tokens, before)
        return any(one.encode() in text for one in self.strings)


class _Words:
    """The bytes of all tokens one after another, and where those of each token begin; the longest tokens first."""

    def __init__(self, added: Sequence[bytes]) -> None:
        self.bytes = np.frombuffer(b"".join(added), dtype=np.uint8)
        lengths = np.array([len(one) for one in added])
        self.first, self.count = np.cumsum(lengths) - lengths, len(added)
        self.order = np.argsort(-lengths, kind="stable")
        self.longer = [int((lengths > place).sum()) for place in range(lengths.max(initial=0))]

    def read(
        self, node: int, reads: NDArray[np.int64], final: NDArray[np.bool_], after: NDArray[np.int64], states: int
    ) -> NDArray[np.int16]:
        """(V,) the node of the table after each token, where the automaton is at `node`."""
        nodes, stopped = np.full(self.count, node), np.zeros(self.count, dtype=np.bool_)
        for place, count in enumerate(self.longer):
            here = self.order[:count]
            nodes[here] = reads[nodes[here], self.bytes[self.first[here] + place]]
            stopped[here] |= final[nodes[here]]
        return np.where(stopped, STOPS, nodes * states + after).astype(np.int16)


class StopState(NamedTuple):
    """The table of a search on the device of its model, and the node (C,) at which each sentence starts."""

    table: Tensor
    starts: Tensor

    def ending(self, nodes: Tensor) -> Tensor:
        """nodes (…) -> (…, V) whether a token would complete a string."""
        return self.table[nodes] == STOPS

    def read(self, nodes: Tensor, tokens: Tensor) -> Tensor:
        """The nodes (…) after these tokens (…); a text that stops is over, whatever its node."""
        return self.table[nodes, tokens].long().clamp(min=0)


@lru_cache(maxsize=4)
def compile_stops(tokenizer: Tokenizer, strings: tuple[str, ...]) -> StopStrings:
    """The strings for the tokens of a tokenizer."""
    return StopStrings(strings, spelling_of(tokenizer))


def cut_text(text: str, strings: Sequence[str], *, start: int = 0) -> tuple[str, str | None]:
    """The text before the first of the strings that occurs from `start` on, and that string; of two that begin at one
    place, the longer one."""
    places = [(place, -len(one), one) for one in strings if (place := text.find(one, start)) >= 0]
    if not places:
        return text, None
    place, _, found = min(places)
    return text[:place], found
