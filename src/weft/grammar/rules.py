"""Context-free grammars: words, rules, and the grammar that holds them, checked when it is made.

A rule A -> X₁ … Xₙ rewrites the name A as a sequence of names and words; an empty rule (n = 0) rewrites it as nothing.
In a probabilistic grammar every rule has P(A -> X₁ … Xₙ | A), and the rules of a name sum to one.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, TypeAlias

from weft.errors import DataError

SUM_TOLERANCE: Final = 0.01
"""Probabilities of a name may sum to one give or take this much, because people write 0.33 for a third."""

BARE: Final = re.compile(r"""(?!->|→|::=)[^\s"'<|\[\]#%ε\\](?:(?!->|→|::=)[^\s"|\[\]\\])*""")
"""A symbol that needs neither quotes nor angle brackets. Quotes, # and < may stand inside it, not at its start."""


@dataclass(frozen=True, slots=True)
class Terminal:
    """A terminal symbol: a word of the sentence, compared exactly."""

    text: str

    def __str__(self) -> str:
        """The word in quotes that it does not contain; a backslash stands before a quote only if it contains both."""
        mark = "'" if '"' in self.text and "'" not in self.text else '"'
        return mark + re.sub(rf"\\(?=[\\\"']|$)|{mark}", lambda found: f"\\{found[0]}", self.text) + mark


Symbol: TypeAlias = str | Terminal
"""A name (a nonterminal) or a word (a terminal)."""


@dataclass(frozen=True)
class Rule:
    """left -> right, with its probability given `left`; `place` is the file and line for messages."""

    left: str
    right: tuple[Symbol, ...]
    probability: float | None = None
    place: str = field(default="", compare=False)

    def __str__(self) -> str:
        """The rule without its probability: NP -> Det "cat"."""
        return f"{show_name(self.left)} -> {self.body}"

    @property
    def body(self) -> str:
        """The right side as it is written in a file."""
        return " ".join(show_name(one) if isinstance(one, str) else str(one) for one in self.right) or "ε"


class Grammar:
    """Rules, in the order of the file, and the name that a sentence is derived from.

    A rule that is written twice counts once; its probabilities are added. Raises a DataError for a name without a rule,
    and for probabilities that are missing at some rules or do not sum to one.
    """

    def __init__(self, rules: Iterable[Rule], *, start: str | None = None) -> None:
        merged: dict[tuple[str, tuple[Symbol, ...]], Rule] = {}
        for rule in rules:
            key = rule.left, rule.right
            merged[key] = _add(merged[key], rule) if key in merged else rule
        if not merged:
            raise DataError(
                "the grammar has no rules", cure='write one rule per line, such as S -> NP VP or N -> "cat"'
            )
        self.rules: tuple[Rule, ...] = tuple(merged.values())
        self.start: str = self.rules[0].left if start is None else start
        self.names: tuple[str, ...] = tuple(dict.fromkeys(rule.left for rule in self.rules))
        self._check_names()
        self._check_probabilities()

    @property
    def probabilistic(self) -> bool:
        """Whether every rule has a probability; otherwise none has."""
        return self.rules[0].probability is not None

    @cached_property
    def words(self) -> tuple[str, ...]:
        """All words of the rules, in order."""
        right = (symbol for rule in self.rules for symbol in rule.right)
        return tuple(dict.fromkeys(symbol.text for symbol in right if isinstance(symbol, Terminal)))

    def __str__(self) -> str:
        """The grammar as text that `read_grammar` reads: a line for each name with all its right sides."""
        lines = [] if self.start == self.rules[0].left else [f"%start {show_name(self.start)}"]
        by_name: dict[str, list[str]] = {name: [] for name in self.names}
        for rule in self.rules:
            chance = "" if rule.probability is None else f" [{rule.probability!r}]"
            by_name[rule.left].append(f"{rule.body}{chance}")
        return "\n".join([*lines, *(f"{show_name(name)} -> {' | '.join(by_name[name])}" for name in self.names), ""])

    def __repr__(self) -> str:
        return f"grammar_from_text({str(self)!r})"

    def _check_names(self) -> None:
        known = set(self.names)
        if self.start not in known:
            raise DataError(f'no rule for the start "{self.start}"', cure=f"write one, or start with {self.names[0]}")
        for rule in self.rules:
            for symbol in rule.right:
                if isinstance(symbol, str) and symbol not in known:
                    near = difflib.get_close_matches(symbol, known, n=1, cutoff=0.6)
                    meant = f'did you mean "{near[0]}"? Else ' if near else ""
                    cure = f'{meant}write a rule {show_name(symbol)} -> …, or "{symbol}" in quotes if it is a word'
                    raise DataError(f'"{symbol}" has no rule', where=rule.place or str(rule), cure=cure)

    def _check_probabilities(self) -> None:
        sums: dict[str, float] = dict.fromkeys(self.names, 0.0)
        for rule in self.rules:
            if (rule.probability is None) == self.probabilistic:
                cure = "write [0.3] behind every right side, or behind none"
                raise DataError(f"{rule}: some rules have a probability, some have none", where=rule.place, cure=cure)
            if rule.probability is not None:
                if not 0 < rule.probability <= 1 + SUM_TOLERANCE:
                    cure = "a probability is above 0 and at most 1; leave out what never happens"
                    raise DataError(f"{rule}: probability {rule.probability}", where=rule.place, cure=cure)
                sums[rule.left] += rule.probability
        for rule in self.rules if self.probabilistic else ():
            if not math.isclose(sums[rule.left], 1, abs_tol=SUM_TOLERANCE):
                what = f"the probabilities of {show_name(rule.left)} sum to {sums[rule.left]:.4g}, not to 1"
                raise DataError(what, where=rule.place, cure="correct them; each | has its own [p]")


def show_name(name: str) -> str:
    """A name as it is written in a file: in angle brackets if it has characters that mean something else."""
    if BARE.fullmatch(name):
        return name
    return "<" + re.sub(r"[\\>]", lambda found: f"\\{found[0]}", name) + ">"


def _add(one: Rule, other: Rule) -> Rule:
    """A rule that is written twice."""
    if one.probability is None or other.probability is None:
        return one if one.probability is None else other  # a missing probability is an error later
    return replace(one, probability=one.probability + other.probability)
