"""Answers of a masked language model: texts whose gaps are filled, with the candidates for each gap."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from weft.tasks.results import Prediction
from weft.tasks.sections import Tree


class Filler(NamedTuple):
    """A token that may stand in a gap, in readable form, and its probability."""

    token: str
    probability: float
    entry: str
    """The token as the vocabulary spells it, such as ▁the and the, or un and ##un."""


@dataclass(frozen=True)
class Filled(Prediction):
    """A text, the same with the likeliest token in each gap, and the likeliest tokens of each gap, best first."""

    text: str
    filled: str
    gaps: tuple[tuple[Filler, ...], ...]

    def __str__(self) -> str:
        return self.filled.replace("\n", " ")

    def record(self) -> Tree:
        return {
            "text": self.text,
            "filled": self.filled,
            "gaps": [[found._asdict() for found in gap] for gap in self.gaps],
        }

    def line(self, *, probabilities: bool = False) -> str:
        return "\t".join([str(self), *(_list(gap, probabilities=probabilities) for gap in self.gaps)])

    def cells(self, name: str, *, probabilities: bool = False) -> dict[str, Any]:
        return {
            name: self.filled,
            CANDIDATES: [_strings(gap, "{} {:.3f}" if probabilities else "{}") for gap in self.gaps],
        }


CANDIDATES: Final = "candidates"
"""The column of candidates in a table of answers."""

CANDIDATE_SEPARATOR: Final = "  "
"""The text between candidates in a line; no candidate has two blanks in it."""


def _list(gap: tuple[Filler, ...], *, probabilities: bool) -> str:
    return gap_text(gap, "{} {:.3f}" if probabilities else "{}")


def gap_text(gap: tuple[Filler, ...], form: str) -> str:
    """The candidates of a gap in a line, each in a format of its name and probability."""
    return CANDIDATE_SEPARATOR.join(_strings(gap, form))


def _strings(gap: tuple[Filler, ...], form: str) -> list[str]:
    """The candidates of a gap; those that read alike as the vocabulary spells them."""
    counts = Counter(found.token for found in gap)
    names = [found.token if counts[found.token] == 1 else found.entry for found in gap]
    return [form.format(name, found.probability) for name, found in zip(names, gap, strict=True)]
