"""Which units do what, in a table of states (N, n) of the tokens of a corpus: plain arithmetic on arrays.

A unit is on where its value lies above a threshold; with the sign -1, below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float32]
Mask = NDArray[np.bool_]

BINS: Final = 128
"""Thresholds that are tried for each unit, in equal steps over its range."""

MIN_COUNT: Final = 5
"""Times that a token occurs before its mean counts."""


class Fit(NamedTuple):
    """How well "on" of a unit agrees with being inside."""

    unit: int
    sign: int
    threshold: float
    precision: float
    recall: float
    f1: float


def mark_inside(
    texts: Sequence[str], spans: NDArray[np.int64], bounds: Sequence[tuple[int, int]], opening: str, closing: str
) -> tuple[Mask, Mask]:
    """Return for each token whether a mark is open after it (N,), and whether it counts (N,).

    Equal marks open and close in turn; different ones nest. What follows a mark that is never closed does not count.
    """
    inside, counts = np.zeros(len(spans), dtype=bool), np.ones(len(spans), dtype=bool)
    for text, (first, last) in zip(texts, bounds, strict=True):
        ends = spans[first:last, 1]
        depth, begin = 0, 0
        for at, opens in _marks(text, opening, closing):
            # The token that has the last character of the mark.
            token = first + int(np.searchsorted(ends, at, side="left"))
            if opens:
                begin = token if depth == 0 else begin
                depth += 1
            elif depth:
                depth -= 1
                if depth == 0:
                    inside[begin:token] = True
        if depth:
            counts[begin:last] = False
    return inside, counts


def _marks(text: str, opening: str, closing: str) -> list[tuple[int, bool]]:
    """The character after each mark of a text, and whether the mark opens."""
    found: list[tuple[int, bool]] = []
    at, opened = 0, False
    while True:
        places = [(text.find(mark, at), mark) for mark in (opening, closing)]
        places = [(place, mark) for place, mark in places if place >= 0]
        if not places:
            return found
        place, mark = min(places, key=lambda pair: pair[0])
        at = place + len(mark)
        opened = not opened if opening == closing else mark == opening
        found.append((at, opened))


def rank_inside(values: Values, inside: Mask, counts: Mask, *, threshold: float | None = None) -> list[Fit]:
    """Fit a threshold and a sign to each unit so that it is on inside and off outside; the best F1 comes first.

    With a threshold given, on is a value of at least that size, of either sign.
    """
    if not inside.any():
        return []
    taken, inner = (values, inside) if counts.all() else (values[counts], inside[counts])
    low, high = taken.min(0), taken.max(0)
    width = np.maximum(high - low, 1e-12) / BINS
    histograms = []
    for part in (taken[inner], taken[~inner]):
        bins = np.minimum(((part - low) / width).astype(np.int64), BINS - 1)
        bins += BINS * np.arange(values.shape[1])
        histograms.append(np.bincount(bins.ravel(), minlength=BINS * values.shape[1]).reshape(-1, BINS))
    fits = []
    for unit in range(values.shape[1]):
        options = []
        for sign in (1, -1):
            edges = low[unit] + width[unit] * (np.arange(BINS) if sign == 1 else np.arange(1, BINS + 1))
            hits, misses = (_on(histogram[unit], sign) for histogram in histograms)
            f1 = 2 * hits / np.maximum(1, hits + misses + int(inner.sum()))
            chosen = int(f1.argmax()) if threshold is None else int(np.abs(edges - sign * threshold).argmin())
            options.append((float(f1[chosen]), sign, float(edges[chosen]) if threshold is None else sign * threshold))
        fits.append((max(options), unit))
    fits.sort(key=lambda pair: (-pair[0][0], pair[1]))
    return [measure(taken, inner, unit, sign, edge) for (_, sign, edge), unit in fits]


def measure(values: Values, inside: Mask, unit: int, sign: int, threshold: float) -> Fit:
    """Count how often a unit is on inside and outside."""
    on = is_on(values[:, unit], sign, threshold)
    hits = int((on & inside).sum())
    precision, recall = hits / max(1, int(on.sum())), hits / max(1, int(inside.sum()))
    f1 = 2 * hits / max(1, int(on.sum()) + int(inside.sum()))
    return Fit(unit, sign, threshold, precision, recall, f1)


def is_on(values: Values, sign: int, threshold: float) -> Mask:
    """Whether each value is on the far side of a threshold."""
    found: Mask = values >= np.float32(threshold) if sign == 1 else values <= np.float32(threshold)
    return found


def _on(histogram: NDArray[np.int64], sign: int) -> NDArray[np.int64]:
    """How many values are on for the threshold at each bin."""
    found: NDArray[np.int64] = histogram[::-1].cumsum()[::-1] if sign == 1 else histogram.cumsum()
    return found


class Held(NamedTuple):
    """How well a unit is on in a part of a text and off beside it, and by how many deviations its means differ."""

    fit: Fit
    margin: float


def rank_span(text: Values, first: int, last: int, corpus: Values) -> list[Held]:
    """text (T, n) -> units that switch on at token `first` and stay on to token `last`, the best first.

    They are off in as many tokens before and after it, of which there are at least two where the text has them.
    """
    room = max(2, last - first + 1)
    begin, end = max(0, first - room), min(len(text), last + 1 + room)
    values, inside = text[begin:end], np.zeros(end - begin, dtype=bool)
    inside[first - begin : last + 1 - begin] = True
    if inside.all():
        return []
    deviation = corpus.std(0) + 1e-9
    margins = (values[inside].mean(0) - values[~inside].mean(0)) / deviation
    fits = rank_inside(values, inside, np.ones(len(values), dtype=bool))
    held = [Held(fit, float(fit.sign * margins[fit.unit])) for fit in fits]
    return sorted(held, key=lambda one: (-one.fit.f1, -one.margin))


def find_together(on: Mask, text_of: NDArray[np.int64], *, most: int) -> list[tuple[int, int]]:
    """Where some units are on, (N,) -> the longest stretches, each its first token and the one after its last."""
    before = np.r_[False, on[:-1] & (text_of[1:] == text_of[:-1])] if len(on) else on
    starts = np.flatnonzero(on & ~before)
    breaks = np.flatnonzero(~on | np.r_[True, text_of[1:] != text_of[:-1]])
    after = np.searchsorted(breaks, starts, side="right")
    ends = np.where(after < len(breaks), breaks[np.minimum(after, len(breaks) - 1)], len(on))
    order = np.argsort(-(ends - starts), kind="stable")[:most]
    return [(int(starts[place]), int(ends[place])) for place in order]


class TokenMeans(NamedTuple):
    """How much of a unit's variance the token explains, and the tokens with its highest and lowest means."""

    unit: int
    explained: float
    tokens: list[tuple[str, float, int]]
    """Token, mean in deviations from the unit's mean, and count."""


def rank_by_token(values: Values, tokens: Sequence[str], *, each: int) -> list[TokenMeans]:
    """Rank units by how much the token that was just read explains of their values."""
    names, numbers = np.unique(np.array(tokens, dtype=object), return_inverse=True)
    order = np.argsort(numbers, kind="stable")
    counts = np.bincount(numbers, minlength=len(names))
    starts = np.r_[0, counts.cumsum()[:-1]]
    means = np.add.reduceat(values[order].astype(np.float64), starts, axis=0) / counts[:, None]
    centre, variance = values.mean(0, dtype=np.float64), values.var(0, dtype=np.float64) + 1e-12
    explained = (counts[:, None] * (means - centre) ** 2).sum(0) / (len(values) * variance)
    scores = np.where(counts[:, None] >= min(MIN_COUNT, len(tokens)), (means - centre) / np.sqrt(variance), 0.0)
    found = []
    for unit in np.argsort(-explained, kind="stable"):
        column = scores[:, unit]
        chosen = np.argsort(-np.abs(column), kind="stable")[:each]
        best = [(str(names[token]), float(column[token]), int(counts[token])) for token in chosen if column[token]]
        found.append(TokenMeans(int(unit), float(explained[unit]), best))
    return found


def top_places(values: Values, unit: int, sign: int, *, most: int, apart: int = 8) -> list[int]:
    """The tokens at which a unit has its highest values, some tokens apart."""
    column = sign * values[:, unit]
    chosen: list[int] = []
    size = min(len(column), most * 4 * apart)
    candidates = np.argpartition(-column, size - 1)[:size]
    for place in candidates[np.argsort(-column[candidates], kind="stable")].tolist():
        if all(abs(place - other) > apart for other in chosen):
            chosen.append(place)
            if len(chosen) == most:
                break
    return chosen
