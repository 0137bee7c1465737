"""Parametrisation of a test by several lists of values, of which the fast suite tries a sample of the combinations.

    @sampled(2, name=["lstm", "gru"], build=BUILDS, lengths=[None, LENGTHS])     every pair of values
    @sampled(1, case=CASES, lengths=[None, LENGTHS], indirect=["case"])          every single value

The other combinations are slow: `make test-all` tries them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import pytest


def sample(sizes: Collection[int], strength: int) -> list[tuple[int, ...]]:
    """Few combinations of range(size), size by size, in which each choice of `strength` values occurs together."""
    product = list(itertools.product(*map(range, sizes)))
    groups = list(itertools.combinations(range(len(sizes)), min(strength, len(sizes))))
    met = {row: {(group, tuple(row[place] for place in group)) for group in groups} for row in product}
    missing = set[Any]().union(*met.values())
    chosen = []
    while missing:
        # Of equally good rows the one with values that were chosen least, so that all occur about equally often.
        used = [[row[place] for row in chosen].count for place in range(len(sizes))]
        best = max(
            product,
            key=lambda row: (
                len(met[row] & missing),
                -sum(count(value) for count, value in zip(used, row, strict=True)),
            ),
        )
        chosen.append(best)
        missing -= met[best]
    return chosen


def sampled(
    strength: int, *, indirect: Collection[str] = (), **values: Mapping[str, Any] | Iterable[Any]
) -> pytest.MarkDecorator:
    """Parametrise a test by all combinations; those outside of a sample of some strength are slow."""
    ids = [list(map(str, each)) for each in values.values()]
    lists = [list(each.values()) if isinstance(each, Mapping) else list(each) for each in values.values()]
    quick = set(sample([len(each) for each in lists], strength))
    rows = [
        pytest.param(
            *(each[place] for each, place in zip(lists, row, strict=True)),
            id="-".join(each[place] for each, place in zip(ids, row, strict=True)),
            marks=() if row in quick else pytest.mark.slow,
        )
        for row in itertools.product(*(range(len(each)) for each in lists))
    ]
    return pytest.mark.parametrize(tuple(values), rows, indirect=list(indirect))
