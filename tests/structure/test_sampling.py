"""The sample of combinations that the fast suite tries leaves nothing out that it promises."""

from __future__ import annotations

import itertools

import pytest
from tests.sampling import sample, sampled


@pytest.mark.parametrize("sizes", [(4, 9, 2), (1, 3), (5,), (3, 3, 3, 2)], ids=str)
@pytest.mark.parametrize("strength", [1, 2])
def test_every_choice_of_so_many_values_occurs(sizes: tuple[int, ...], strength: int) -> None:
    rows = sample(sizes, strength)
    for places in itertools.combinations(range(len(sizes)), min(strength, len(sizes))):
        found = {tuple(row[place] for place in places) for row in rows}
        assert found == set(itertools.product(*(range(sizes[place]) for place in places)))
    assert len(rows) == len(set(rows)) <= 1.5 * max(sizes) * (max(sizes) if strength > 1 else 1)


def test_what_is_not_sampled_is_slow() -> None:
    mark = sampled(1, kind={"one": 1, "two": 2}, size=[3, 4, 5])
    names, rows = mark.args
    assert names == ("kind", "size")
    assert {row.values for row in rows} == set(itertools.product([1, 2], [3, 4, 5]))
    assert {row.id for row in rows if not row.marks} == {"one-3", "two-4", "one-5"}
    assert {mark.name for row in rows for mark in row.marks} == {"slow"}
