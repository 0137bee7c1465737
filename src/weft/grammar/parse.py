"""Parses sentences: `parse(grammar, text)` returns all trees of a text, or what stood in their way."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, lru_cache
from itertools import islice
from os import PathLike
from typing import Any, Final

from weft.errors import DataError, counted
from weft.grammar.chart import Chart, GrammarTables
from weft.grammar.forest import Forest
from weft.grammar.inside import inside
from weft.grammar.notation import read_grammar
from weft.grammar.ranking import Ranking
from weft.grammar.rules import Grammar, show_name
from weft.grammar.tree import Tree

MAX_EXPECTED_NAMES: Final = 8
"""Names and words that a message lists as expected, words that it lists for a name, and unknown words."""

MAX_JSON_COUNT: Final = 10**300
"""A count of trees from which JSON has null, because readers of JSON know no such numbers."""


def parse(grammar: Grammar | str | PathLike[str], text: str | Sequence[str]) -> Parse:
    """Parse a text, split at blanks, or a list of words, with a grammar or the grammar in a file.

    The result is true if the text is a sentence of the grammar. Otherwise it says how far it got.
    """
    if not isinstance(grammar, Grammar):
        grammar = read_grammar(grammar)
    return Parse(grammar, text.split() if isinstance(text, str) else list(text))


@lru_cache(maxsize=8)
def _tables(grammar: Grammar) -> GrammarTables:
    return GrammarTables(grammar)


class Parse:
    """All trees of a sentence, in a shared forest.

    count             the number of trees, an int; math.inf if a rule can apply to its own result without a new word
    log_probability   of the sentence in a probabilistic grammar: the sum over all trees; else None
    reached           the number of words that begin some sentence of the grammar
    """

    def __init__(self, grammar: Grammar, words: Sequence[str]) -> None:
        self.grammar, self.words = grammar, tuple(words)
        self._chart = Chart(_tables(grammar), self.words)
        self.reached: int = self._chart.reached

    def __bool__(self) -> bool:
        return self._chart.accepted

    @cached_property
    def forest(self) -> Forest:
        """The shared forest of all trees; raises a DataError if there is none."""
        if not self:
            raise DataError(self.explain(), cure="change the sentence, or add a rule")
        return Forest(self._chart)

    @property
    def count(self) -> float:
        """The number of trees: an int, or math.inf."""
        return self.forest.count if self else 0

    @cached_property
    def log_probability(self) -> float | None:
        """The logarithm of the sum over all trees; -inf if there are none."""
        if not self.grammar.probabilistic:
            return None
        return inside(self.forest, self.grammar) if self else -math.inf

    @property
    def probability(self) -> float | None:
        """The probability of the sentence; zero if it is below the smallest float."""
        return None if self.log_probability is None else math.exp(self.log_probability)

    @cached_property
    def _ranking(self) -> Ranking:
        return Ranking(self.forest, self.grammar)

    def trees(self, limit: int | None = None) -> Iterator[Tree]:
        """Yield trees, the most probable first; without probabilities those with the fewest rules first.

        Among equals, rules that stand first in the grammar come first. Infinitely many trees have no end.
        """
        return islice(self._ranking.trees(), limit) if self else iter(())

    @property
    def best(self) -> Tree:
        """The first tree; raises a DataError if there is none."""
        self.forest  # noqa: B018 - raises with the reason
        return next(self.trees())

    @property
    def unknown(self) -> tuple[str, ...]:
        """The words that are in no rule."""
        known = set(self.grammar.words)
        return tuple(dict.fromkeys(word for word in self.words if word not in known))

    @cached_property
    def expected(self) -> tuple[str, ...]:
        """The words that could have come after the first `reached` ones."""
        return tuple(dict.fromkeys(word for _, word in self._chart.expected()))

    def explain(self) -> str:
        """Why there is no tree: how far the parse got, what was expected there, and the unknown words."""
        reached, words = self.reached, self.words
        if not words:
            where = "the text is empty"
        elif reached == len(words):
            where = "the text ends too early"
        else:
            behind = f'after "{" ".join(words[max(0, reached - 5) : reached])}"' if reached else "at the beginning"
            where = f'stopped {behind}, before "{words[reached]}" (word {reached + 1} of {len(words)})'
        parts = [f"no tree: {where}", f"expected {self._show_expected()}"]
        if self.unknown:
            named = [
                *map(self._near, self.unknown[:MAX_EXPECTED_NAMES]),
                *(["…"] * (len(self.unknown) > MAX_EXPECTED_NAMES)),
            ]
            parts.append(f"{counted(len(self.unknown), 'unknown word')}: {', '.join(named)}")
        return "; ".join(parts)

    def _show_expected(self) -> str:
        groups: dict[str | None, list[str]] = {}
        for name, word in self._chart.expected():
            groups.setdefault(name, []).append(f'"{word}"')
        shown = groups.pop(None, [])
        for name, found in groups.items():
            more = ", …" if len(found) > MAX_EXPECTED_NAMES else ""
            shown.append(f"{show_name(name or '')} ({', '.join(found[:MAX_EXPECTED_NAMES])}{more})")
        if len(shown) > MAX_EXPECTED_NAMES:
            shown[MAX_EXPECTED_NAMES:] = [f"{len(shown) - MAX_EXPECTED_NAMES} more"]
        if self.reached < len(self.words) and 0 in self._chart.completed(self.reached, self._chart.tables.start):
            shown.append("the end")
        return " or ".join(filter(None, [", ".join(shown[:-1]), *shown[-1:]])) or "nothing more"

    def _near(self, word: str) -> str:
        near = difflib.get_close_matches(word.lower(), self.grammar.words, n=1, cutoff=0.75)
        return f'"{word}" (did you mean "{near[0]}"?)' if near else f'"{word}"'

    def record(self, trees: Iterable[Tree] | None = None, *, derivation: bool = False) -> dict[str, Any]:
        """Plain data for JSON: words, count (null from 10^300 on), probabilities, and trees; else the reason.

        Without `trees` it has the first one.
        """
        count = self.count
        found: dict[str, Any] = {"words": list(self.words), "count": count if count < MAX_JSON_COUNT else None}
        found["infinite"] = count == math.inf
        if self.grammar.probabilistic:
            found |= {"probability": self.probability, "log_probability": _finite(self.log_probability)}
        found["trees"] = [_tree_record(tree, derivation) for tree in (self.trees(1) if trees is None else trees)]
        if not self:
            found |= {"reached": self.reached, "expected": list(self.expected), "unknown": list(self.unknown)}
            found["message"] = self.explain()
        return found


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _tree_record(tree: Tree, derivation: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"tree": tree.record(), "brackets": tree.brackets()}
    if tree.log_probability is not None:
        found |= {"probability": tree.probability, "log_probability": tree.log_probability}
    if derivation:
        found["derivation"] = [{"rule": str(step.rule), "form": str(step)} for step in tree.derivation()]
    return found
