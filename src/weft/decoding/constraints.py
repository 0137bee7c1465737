"""Phrases that a text may not or must contain, as tokens; and the progress of a hypothesis with them."""

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
"""The number of missing tokens of a phrase that belongs to the beginning of the text, once that is over."""


@dataclass(frozen=True)
class Constraint:
    """Phrases that the text of one sentence may not and must contain. One that begins with sos begins the text."""

    forbid: tuple[Phrase, ...] = ()
    """Phrases that may not appear, not even with their first part in the prefix."""
    require: tuple[tuple[Phrase, ...], ...] = ()
    """Phrases that must appear after the prefix; of each, any one of several wordings."""

    def __post_init__(self) -> None:
        if not all(self.forbid) or not all(ways and all(ways) for ways in self.require):
            raise ConfigError("a phrase has no tokens", where="constraints", cure="leave it out")

    def missing(self, tokens: Sequence[int], *, starts: bool) -> tuple[int, ...]:
        """The indices of required phrases that the tokens lack; `starts` if the tokens begin the text."""
        text = (SOS, *tokens) if starts else tuple(tokens)
        return tuple(number for number, ways in enumerate(self.require) if not any(contains(text, way) for way in ways))


def contains(text: Sequence[int], phrase: Phrase) -> bool:
    """Whether the text contains the phrase."""
    size = len(phrase)
    return any(tuple(text[first : first + size]) == phrase for first in range(len(text) - size + 1))


class Progress(NamedTuple):
    """The progress of one hypothesis: the nodes of both automata, and the indices of required phrases that it has."""

    forbidden: int
    required: int
    met: frozenset[int]


class CompiledConstraint:
    """A constraint as automata; sentences with equal constraints share one."""

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        self._forbidden = Automaton(constraint.forbid)
        self._required = Automaton([way for ways in constraint.require for way in ways])
        self._owners = [number for number, ways in enumerate(constraint.require) for _ in ways]
        self.needed = cache(self._needed)
        self.wanted = cache(self._wanted)
        self.blocked = cache(self._blocked)

    def start(self, prefix: Sequence[int]) -> Progress:
        """The progress before the first token after the prefix."""
        required = self._required.read_all(() if prefix else (SOS,))
        return Progress(self._forbidden.read_all((SOS, *prefix)), required, frozenset())

    def read(self, progress: Progress, token: int) -> Progress:
        """The progress after one more token."""
        forbidden = self._forbidden.read(progress.forbidden, token)
        required = self._required.read(progress.required, token)
        whole = {owner for owner, phrase, count in self._phrases(required) if count == len(phrase)}
        return Progress(forbidden, required, progress.met | whole)

    def _blocked(self, progress: Progress) -> NDArray[np.int64]:
        """Forbidden tokens: the last of a forbidden phrase, and the end while a required phrase is missing."""
        end = () if len(progress.met) == len(self.constraint.require) else (EOS,)
        return np.array((*self._forbidden.completing(progress.forbidden), *end), dtype=np.int64)

    def _wanted(self, progress: Progress) -> tuple[int, ...]:
        """The tokens that would continue or begin a missing phrase."""
        missing = (
            (phrase, count) for owner, phrase, count in self._phrases(progress.required) if owner not in progress.met
        )
        return tuple(sorted({phrase[count] for phrase, count in missing} - {SOS}))

    def _needed(self, progress: Progress) -> int:
        """A number of tokens that suffices for all missing phrases: finish one of them, then write the others whole."""
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
        """Each wording of the required phrases: the index of its phrase, its tokens, how many of them end the text."""
        return zip(self._owners, self._required.phrases, self._required.reached(node), strict=True)


class SentenceConstraint(NamedTuple):
    """The constraint of one sentence, and its progress before the first step."""

    compiled: CompiledConstraint
    start: Progress
    starts: bool
    """Whether its first token begins the text: there is no prefix."""


def compile_constraints(
    constraints: Sequence[Constraint] | None, prefixes: Sequence[Sequence[int]]
) -> tuple[SentenceConstraint, ...] | None:
    """The constraint of each sentence; None where there is none at all."""
    if constraints is None or not any(one.forbid or one.require for one in constraints):
        return None
    shared = {one: CompiledConstraint(one) for one in set(constraints)}
    pairs = [(shared[one], prefix) for one, prefix in zip(constraints, prefixes, strict=True)]
    return tuple(SentenceConstraint(compiled, compiled.start(prefix), not prefix) for compiled, prefix in pairs)
