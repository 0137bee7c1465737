"""From counts to probabilities: the smoothing of n-gram models.

c w     an n-gram: a context c and a word w             a(c w)     its count
C(c)    the sum of the counts of c, over all words       W          the number of words that can follow, V less three
c'      the context without its first word

none         P(w|c) = a(c w) / C(c);  for a context that was never seen, P(w|c')
add_k        P(w|c) = (a(c w) + k) / (C(c) + k W);  for a context that was never seen, 1 / W
kneser_ney   P(w|c) = (a(c w) - D(a(c w))) / C(c) + γ(c) P(w|c')         P(w|) = (a(w) - D(a(w))) / C + γ / W
             γ(c)   = Σ_w D(a(c w)) / C(c)                               D(a) = D_1, D_2 or, for a ≥ 3, D_3
             D_k    = k - (k + 1) Y t_{k+1} / t_k      Y = t_1 / (t_1 + 2 t_2)      t_k: n-grams with a = k

Kneser-Ney is interpolated and modified (Chen and Goodman, 1998), with discounts of its own for each order. Below the
highest order a(c w) is not how often the n-gram occurs, but how many different words stand before it; an n-gram that
begins a text, which has no word before it, keeps its count. These are the numbers of KenLM's lmplz.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from weft.models.ngram.counting import Level
from weft.models.ngram.runs import Integers
from weft.models.ngram.tables import ZERO, Longs, OrderTable, log, producible
from weft.settings import Positive, Settings
from weft.text import SOS

FALLBACK_DISCOUNTS: Final = (0.5, 1.0, 1.5)
"""D_1, D_2 and D_3 where the counts of counts give none, as in lmplz with --discount_fallback."""

Doubles = NDArray[np.float64]


class Order(NamedTuple):
    """The n-grams of one order with the same context side by side: counts a (E,), the context c of each (E,) as a
    number below `contexts`, and the probability P(w|c') of its last word after the shorter context (E,)."""

    a: Integers
    c: Longs
    contexts: int
    lower: Doubles
    words: int
    """W, the number of words that can follow a context."""

    @property
    def sums(self) -> Doubles:
        """C (contexts,)"""
        return np.bincount(self.c, weights=self.a, minlength=self.contexts).astype(np.float64)


class Probabilities(NamedTuple):
    """P(w|c) of each n-gram (E,), and the log-weight of each context (contexts,), as in `OrderTable.backoffs`."""

    p: Doubles
    weights: NDArray[np.float32]


Rule = Callable[[Order], Probabilities]
"""The probabilities of the n-grams of one order."""


class Estimate(NamedTuple):
    """The tables of a model, by order, and notes for the user."""

    tables: list[OrderTable]
    notes: tuple[str, ...] = ()


class Smoothing(Settings):
    """The settings of a smoothing: they turn counts into tables."""

    kind: str
    gives_zeros: ClassVar[bool] = False
    """Whether some texts have the probability 0."""
    backs_off: ClassVar[bool] = True
    """Whether a word that was never seen after a context has its probability after a shorter one, times the backoff. If
    not, `OrderTable.backoffs` holds the log-probability of each such word."""

    @abstractmethod
    def probabilities(self, order: Order) -> Probabilities:
        """The probabilities of the n-grams of one order."""

    def estimate(self, levels: Sequence[Level], vocabulary: int) -> Estimate:
        """The tables for these counts, of order 1 and up."""
        counts = [level.counts for level in levels]
        return Estimate(_tabulate(levels, counts, [self.probabilities] * len(levels), vocabulary))


class NoSmoothing(Smoothing):
    """Relative frequencies: an n-gram that was never seen has the probability 0."""

    kind: Literal["none"] = "none"
    gives_zeros: ClassVar[bool] = True

    def probabilities(self, order: Order) -> Probabilities:
        sums = order.sums
        p = order.a / np.maximum(sums, 1)[order.c]
        return Probabilities(p, np.where(sums > 0, ZERO, 0.0).astype(np.float32))


class AddK(Smoothing):
    """A number is added to the count of every word after every context."""

    kind: Literal["add_k"] = "add_k"
    k: Positive = 0.1
    """The number that is added to each count; 1 is Laplace's rule."""
    backs_off: ClassVar[bool] = False

    def probabilities(self, order: Order) -> Probabilities:
        sums = order.sums + self.k * order.words
        p = (order.a + self.k) / sums[order.c]
        return Probabilities(p, log(self.k / sums))


class FromFile(Smoothing):
    """The probabilities of an ARPA file, which `weft import` reads: they are no counts, and nothing is smoothed."""

    kind: Literal["arpa"] = "arpa"
    gives_zeros: ClassVar[bool] = True

    def probabilities(self, order: Order) -> Probabilities:
        raise NotImplementedError("an ARPA file has probabilities and no counts")


class KneserNey(Smoothing):
    """Interpolated modified Kneser-Ney, with three discounts for each order."""

    kind: Literal["kneser_ney"] = "kneser_ney"

    def probabilities(self, order: Order) -> Probabilities:
        return interpolate(order, FALLBACK_DISCOUNTS)

    def estimate(self, levels: Sequence[Level], vocabulary: int) -> Estimate:
        counts = adjusted_counts(levels, vocabulary)
        found = [discounts(a) for a in counts]
        notes = [
            f"Kneser-Ney: the {order}-grams have no usable counts of counts, so their discounts are "
            f"{', '.join(f'{d:g}' for d in FALLBACK_DISCOUNTS)}"
            for order, d in enumerate(found, 1)
            if d is None
        ]
        rules = [lambda order, d=d or FALLBACK_DISCOUNTS: interpolate(order, d) for d in found]
        return Estimate(_tabulate(levels, counts, rules, vocabulary), tuple(notes))


def interpolate(order: Order, d: Sequence[float]) -> Probabilities:
    """The probabilities of Kneser-Ney with the discounts D_1, D_2 and D_3."""
    sums = order.sums
    some = np.maximum(sums, 1)
    taken = np.array([0.0, *d])[np.minimum(order.a, 3)]
    gamma = np.bincount(order.c, weights=taken, minlength=order.contexts) / some
    p = (order.a - taken) / some[order.c] + gamma[order.c] * order.lower
    return Probabilities(p, np.where(sums > 0, log(gamma), np.float32(0)))


def adjusted_counts(levels: Sequence[Level], vocabulary: int) -> list[Integers]:
    """The counts a of Kneser-Ney: below the highest order how many different words stand before an n-gram, or how often
    it occurs where it begins with the start token."""
    adjusted: list[Integers] = []
    begin, end = SOS, SOS + 1  # the range of n-grams that begin with the start token
    for order, level in enumerate(levels, 1):
        if order > 1:
            begin, end = np.searchsorted(level.keys, [begin * vocabulary, end * vocabulary])
        if order == len(levels):
            a = level.counts
        else:
            a = np.bincount(levels[order].suffixes, minlength=level.size)
            a[begin:end] = level.counts[begin:end]
        adjusted.append(a)
    adjusted[0] = adjusted[0].copy()
    adjusted[0][SOS] = 0
    return adjusted


def discounts(a: Integers) -> tuple[float, ...] | None:
    """D_1, D_2 and D_3 of n-grams with these counts; None where too few different counts occur to estimate them."""
    t = np.bincount(a[a < 5], minlength=5)
    if not t[1:4].all():
        return None
    y = t[1] / (t[1] + 2 * t[2])
    found = tuple(float(k - (k + 1) * y * t[k + 1] / t[k]) for k in (1, 2, 3))
    return found if all(0 < d <= k for k, d in enumerate(found, 1)) else None


def _tabulate(
    levels: Sequence[Level], counts: Sequence[Integers], rules: Sequence[Rule], vocabulary: int
) -> list[OrderTable]:
    """The tables by the rule of each order, from the lowest order to the highest."""
    can = producible(vocabulary)
    words = max(1, int(can.sum()))
    tables: list[OrderTable] = []
    below = can / words
    for level, a, rule in zip(levels, counts, rules, strict=True):
        if not tables:
            order = Order(np.where(can, a, 0), np.zeros(level.size, dtype=np.int64), 1, below, words)
        else:
            order = Order(a, level.keys // vocabulary, len(below), below[level.suffixes], words)
        below, weights = rule(order)
        if tables:
            tables[-1] = tables[-1]._replace(backoffs=weights)
        else:
            below = np.where(can, below, 0.0)
        tables.append(OrderTable(level.keys, log(np.minimum(below, 1.0)), np.zeros(0, dtype=np.float32)))
    return tables
