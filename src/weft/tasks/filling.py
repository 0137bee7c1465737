"""Answers of a masked language model: texts whose gaps are filled, with the candidates for each gap."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from weft.tasks.results import Prediction
from weft.tasks.sections import Tree
from weft.text import MASK, Tokenizer

GAP: Final = re.compile(r"<mask>|\[MASK\]")
"""The spellings of a gap in a text to be filled."""

BLANK_IN_TOKEN: Final = ("bpe", "unigram", "imported")
"""The kinds of tokens that have the blank before a word in them, so that a gap has it too."""


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
        return {name: self.filled, CANDIDATES: [_strings(gap, probabilities=probabilities) for gap in self.gaps]}


CANDIDATES: Final = "candidates"
"""The column of candidates in a table of answers."""

CANDIDATE_SEPARATOR: Final = "  "
"""The text between candidates in a line; no candidate has two blanks in it."""


def _list(gap: tuple[Filler, ...], *, probabilities: bool) -> str:
    return CANDIDATE_SEPARATOR.join(_strings(gap, probabilities=probabilities))


def _strings(gap: tuple[Filler, ...], *, probabilities: bool) -> list[str]:
    """The candidates of a gap; those that read alike as the vocabulary spells them."""
    counts = Counter(found.token for found in gap)
    names = [found.token if counts[found.token] == 1 else found.entry for found in gap]
    return [
        f"{name} {found.probability:.3f}" if probabilities else name for name, found in zip(names, gap, strict=True)
    ]


def fill_text(tokenizer: Tokenizer, text: str, fillers: Sequence[int]) -> str:
    """The text as it is written, with a token in each gap."""
    filled, *parts = GAP.split(text)
    for piece, part in zip(tokenizer.pieces(fillers), parts, strict=True):
        if tokenizer.kind in BLANK_IN_TOKEN:
            filled = filled.rstrip(" ")
        said = piece.replace("▁", " ")
        filled += (said if filled else said.lstrip(" ")) + part
    return filled


def encode_gaps(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text in which <mask> or [MASK] stands for one token that is to be found."""
    ids: list[int] = []
    parts = GAP.split(text)
    for number, part in enumerate(parts):
        if number:
            ids.append(MASK)
        if tokenizer.kind in BLANK_IN_TOKEN and number < len(parts) - 1:
            part = part.rstrip(" ")
        if part:
            ids += tokenizer.encode(part)
    return ids
