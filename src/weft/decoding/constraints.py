"""Phrases that a text may not contain and phrases that it must, as tokens; and how far a hypothesis is with them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.decoding.automaton import Automaton, Phrase
from weft.errors import ConfigError
from weft.text import EOS, SOS

NEVER_MET: Final = 1_000_000
"""Tokens that are wanting of a phrase whose only beginning is over."""


@dataclass(frozen=True)
class Constraint:
    """What the text of one sentence may not and must contain. A phrase that begins with sos stands at the beginning."""

    forbid: tuple[Phrase, ...] = ()
    """Phrases of which none comes about, not even with a prefix as its first part."""
    require: tuple[tuple[Phrase, ...], ...] = ()
    """What has to be said after the prefix; each in any one of some ways."""

    def __post_init__(self) -> None:
        if not all(self.forbid) or not all(ways and all(ways) for ways in self.require):
            raise ConfigError("a phrase has no tokens", where="constraints", cure="leave it out")

    def missing(self, tokens: Sequence[int], *, starts: bool) -> tuple[int, ...]:
        """The numbers of what is required and not among the tokens, which `starts` says begin the text."""
        text = (SOS, *tokens) if starts else tuple(tokens)
        return tuple(number for number, ways in enumerate(self.require) if not any(contains(text, way) for way in ways))


def contains(text: Sequence[int], phrase: Phrase) -> bool:
    """Whether the phrase stands somewhere in the text."""
    size = len(phrase)
    return any(tuple(text[first : first + size]) == phrase for first in range(len(text) - size + 1))


class Progress(NamedTuple):
    """Of one hypothesis: the nodes of both automata, and the numbers of what it has said of the required."""

    forbidden: int
    required: int
    met: frozenset[int]


class Rules:
    """A constraint in motion; sentences that ask for the same share one."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self._forbidden = Automaton(constraint.forbid)
        self._required = Automaton([way for ways in constraint.require for way in ways])
        self._owners = [number for number, ways in enumerate(constraint.require) for _ in ways]
        self.needed = cache(self._needed)
        self.wanted = cache(self._wanted)
        self.blocked = cache(self._blocked)

    def start(self, prefix: Sequence[int]) -> Progress:
        """Before the first token that is free."""
        required = self._required.read_all(() if prefix else (SOS,))
        return Progress(self._forbidden.read_all((SOS, *prefix)), required, frozenset())

    def read(self, progress: Progress, token: int) -> Progress:
        """After one more token."""
        forbidden = self._forbidden.read(progress.forbidden, token)
        required = self._required.read(progress.required, token)
        whole = {owner for owner, phrase, count in self._phrases(required) if count == len(phrase)}
        return Progress(forbidden, required, progress.met | whole)

    def _blocked(self, progress: Progress) -> NDArray[np.int64]:
        """Tokens that may not come: the last of a forbidden phrase, and the end while something is missing."""
        end = () if len(progress.met) == len(self.constraint.require) else (EOS,)
        return np.array((*self._forbidden.completing(progress.forbidden), *end), dtype=np.int64)

    def _wanted(self, progress: Progress) -> tuple[int, ...]:
        """The tokens that would carry on or begin what is still missing."""
        missing = (
            (phrase, count) for owner, phrase, count in self._phrases(progress.required) if owner not in progress.met
        )
        return tuple(sorted({phrase[count] for phrase, count in missing} - {SOS}))

    def _needed(self, progress: Progress) -> int:
        """Tokens that surely suffice for what is missing: to go on with one phrase, and then write the others whole."""
        whole: dict[int, int] = {}
        rest: dict[int, int] = {}
        for owner, phrase, count in self._phrases(progress.required):
            if owner in progress.met:
                continue
            anchored = phrase[0] == SOS
            whole[owner] = min(whole.get(owner, NEVER_MET), NEVER_MET if anchored else len(phrase))
            left = NEVER_MET if anchored and not count else len(phrase) - count
            rest[owner] = min(rest.get(owner, NEVER_MET), left)
        return min((sum(whole.values()) - whole[owner] + rest[owner] for owner in whole), default=0)

    def _phrases(self, node: int) -> Iterator[tuple[int, Phrase, int]]:
        """Of each required phrase what it is a way to say, its tokens, and how many of them stand at the end."""
        return zip(self._owners, self._required.phrases, self._required.reached(node), strict=True)


class Ruled(NamedTuple):
    """The rules of one sentence, and where it stands when it begins."""

    rules: Rules
    start: Progress
    starts: bool
    """Whether its first token begins the text: there is no prefix."""


def compile_rules(
    constraints: Sequence[Constraint] | None, prefixes: Sequence[Sequence[int]]
) -> tuple[Ruled, ...] | None:
    """The rules of each sentence; None where nobody asks for anything."""
    if constraints is None or not any(one.forbid or one.require for one in constraints):
        return None
    shared = {one: Rules(one) for one in set(constraints)}
    pairs = [(shared[one], prefix) for one, prefix in zip(constraints, prefixes, strict=True)]
    return tuple(Ruled(rules, rules.start(prefix), not prefix) for rules, prefix in pairs)
