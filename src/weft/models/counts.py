"""Count models small enough to check by hand: bigrams, emissions, and Viterbi's algorithm with its trellis.

    P(w | v) = count(v w) / count(v ·)          P(w | t) = count(w with the tag t) / count(t)

    δ₁(t)  = a(<s>, t) b(t, w₁)                 δₖ(t) = max over s: δₖ₋₁(s) a(s, t) b(t, wₖ)

Probabilities are exact fractions. Viterbi takes any scores: rows need not sum to one. `ngram` and `hmm` are the models
for real data; these show what they compute.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from numbers import Real
from typing import Final, TypeAlias

from weft.errors import DataError

START: Final = "<s>"
END: Final = "</s>"

Scores: TypeAlias = Mapping[str, Mapping[str, "float | Fraction"]]
"""By what is given, then by what follows: scores["<s>"]["I"]. What is missing has the score 0."""


class CountedDistribution(Mapping[str, Fraction]):
    """The probabilities of what follows one given thing; of what was never counted, `get` and [] return 0."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts, self.total = counts, counts.total()

    def __getitem__(self, key: str) -> Fraction:
        return Fraction(self.counts[key], self.total)

    def get(self, key: str, default: object = None) -> Fraction:
        """The probability; 0 if it was never counted, whatever the default."""
        return self[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)


class ConditionalTable(Mapping[str, CountedDistribution]):
    """Conditional probabilities by counting: table[given][what] is an exact fraction."""

    def __init__(self, pairs: Iterable[tuple[str, str]]) -> None:
        counts: dict[str, Counter[str]] = {}
        for given, what in pairs:
            counts.setdefault(given, Counter())[what] += 1
        self._rows = {given: CountedDistribution(row) for given, row in counts.items()}

    def __getitem__(self, given: str) -> CountedDistribution:
        return self._rows[given]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        shown = (f"P({what} | {given}) = {chance}" for given, row in self.items() for what, chance in row.items())
        return "\n".join(shown)


def bigram(sentences: Iterable[str | Sequence[str]]) -> ConditionalTable:
    """P(word | word before), with <s> before the first word and </s> after the last; texts are split at blanks.

    Sequences of tags give the transitions of an HMM.
    """
    pairs: list[tuple[str, str]] = []
    for sentence in sentences:
        words = sentence.split() if isinstance(sentence, str) else list(sentence)
        pairs += zip([START, *words], [*words, END], strict=True)
    return _counted(pairs, "sentences")


def emissions(tagged: Iterable[Sequence[tuple[str, str]]]) -> ConditionalTable:
    """P(word | tag) of sentences of (word, tag) pairs: emissions(…)["noun"]["girl"]."""
    return _counted([(tag, word) for sentence in tagged for word, tag in sentence], "tagged words")


def _counted(pairs: list[tuple[str, str]], what: str) -> ConditionalTable:
    if not pairs:
        raise DataError(f"no {what} to count", cure="give at least one")
    return ConditionalTable(pairs)


@dataclass(frozen=True)
class TrellisCell:
    """A cell of the trellis: the best score of a tag at a word, and the tag before it (None at the first word)."""

    score: float | Fraction
    before: str | None


@dataclass(frozen=True)
class ViterbiPath:
    """The best tags of a sentence, their score, and the trellis: for each word the cell of each tag."""

    tags: tuple[str, ...]
    score: float | Fraction
    trellis: tuple[Mapping[str, TrellisCell], ...]


def viterbi(words: str | Sequence[str], transitions: Scores, emissions: Scores) -> ViterbiPath:
    """The tags with the highest product of transitions a(s, t) and emissions b(t, w), from <s> on.

    `transitions` has a row for "<s>" and one for each tag, `emissions` a row for each tag. Scores are numbers from zero
    up. If the rows have "</s>" (as those of `bigram` do), the last tag is followed by it. Among equals the first
    tag of `emissions` wins. Raises a DataError if every sequence has the score 0.
    """
    words = words.split() if isinstance(words, str) else list(words)
    if not words:
        raise DataError("no words to tag", cure="give a sentence")
    _check(transitions, "transitions", needed=START)
    _check(emissions, "emissions")
    tags = list(emissions)
    trellis: list[dict[str, TrellisCell]] = []
    for number, word in enumerate(words):
        column: dict[str, TrellisCell] = {}
        for tag in tags:
            reached = [(cell.score, before) for before, cell in trellis[-1].items()] if trellis else [(1, START)]
            paths = [(score * _score(transitions, before, tag), before) for score, before in reached]
            score, before = max(paths, key=lambda path: path[0])  # the first of equals
            column[tag] = TrellisCell(score * _score(emissions, tag, word), before if trellis else None)
        if not any(cell.score for cell in column.values()):
            known = any(_score(emissions, tag, word) for tag in tags)
            what = (
                f'no tags up to word {number + 1}, "{word}", have a score above 0' if known else f'no tag has "{word}"'
            )
            raise DataError(what, cure="add a transition" if known else "add an emission of this word")
        trellis.append(column)
    ends = any(END in row for row in transitions.values())
    final = {tag: cell.score * (_score(transitions, tag, END) if ends else 1) for tag, cell in trellis[-1].items()}
    last = max(final, key=lambda tag: final[tag])
    if not final[last]:
        raise DataError("no tag of the last word can be followed by </s>", cure="add a transition to it")
    path = [last]
    for column in reversed(trellis[1:]):
        before_last = column[path[-1]].before
        assert before_last is not None
        path.append(before_last)
    return ViterbiPath(tuple(reversed(path)), final[last], tuple(trellis))


def _score(scores: Scores, given: str, what: str) -> float | Fraction:
    row = scores.get(given)
    return 0 if row is None else row.get(what, 0)


def _check(scores: Scores, name: str, *, needed: str | None = None) -> None:
    if not scores or (needed is not None and needed not in scores):
        raise DataError(
            f"{name} without a row {needed or ''}".rstrip(), cure=f"{name} are tables by row, then by column"
        )
    for given, row in scores.items():
        for what, score in row.items():
            if not isinstance(score, Real) or not score >= 0:
                raise DataError(f"{name}[{given!r}][{what!r}] = {score!r}", cure="scores are numbers of at least 0")
