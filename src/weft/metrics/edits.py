"""Edit distance, and the error rates that are made of it.

The distance of two sequences is the fewest insertions, deletions and replacements that turn one into the other. An
error rate is the edits of all hypotheses over the length of all references: `wer` counts blank-separated words (or
phones, or actions), `cer` characters. It is above 1 where hypotheses are much too long.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

UNITS: dict[str, Callable[[str], list[str]]] = {"wer": str.split, "cer": list}
"""The function that splits a text into the units of each rate."""


class Edits(NamedTuple):
    """Edits of some hypotheses, and how long their references are."""

    edits: int
    length: int


def count_edits(rate: str, hypothesis: str, reference: str) -> Edits:
    """The edits of one hypothesis, in words for `wer` and in characters for `cer`."""
    split = UNITS[rate]
    expected = split(reference)
    return Edits(0 if hypothesis == reference else edit_distance(split(hypothesis), expected), len(expected))


def count_nearest(rate: str, hypothesis: str, references: Sequence[str]) -> Edits:
    """The edits to the reference that needs the fewest, the first of several such."""
    return min((count_edits(rate, hypothesis, reference) for reference in references), key=lambda found: found.edits)


def edit_distance(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """The fewest insertions, deletions and replacements that turn one sequence into the other.

    A column of the table of distances is two numbers with a bit for each item of the longer sequence: bit i of `rises`
    says that the distance grows by one from row i to row i + 1, bit i of `falls` that it shrinks (Myers, 1999, in the
    form of Hyyrö, 2001). So there are some ten operations on whole numbers for each item of the shorter one.
    """
    long, short = (one, other) if len(one) >= len(other) else (other, one)
    if not short:
        return len(long)
    places: dict[Hashable, int] = {}
    for row, item in enumerate(long):
        places[item] = places.get(item, 0) | 1 << row
    every, last = (1 << len(long)) - 1, 1 << len(long) - 1
    rises, falls, distance = every, 0, len(long)
    for item in short:
        equal = places.get(item, 0)
        vertical = equal | falls
        horizontal = (((equal & rises) + rises) ^ rises) | equal
        more = falls | (every & ~(horizontal | rises))
        fewer = rises & horizontal
        distance += bool(more & last) - bool(fewer & last)
        more, fewer = (more << 1 | 1) & every, fewer << 1 & every
        rises = fewer | (every & ~(vertical | more))
        falls = more & vertical
    return distance
