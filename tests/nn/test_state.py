"""State is a value: its rows can be chosen, and what is shared stays one."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from weft.nn import Shared, detach, map_state, select_rows


class Pair(NamedTuple):
    a: Tensor
    b: Tensor | None


def test_rows_of_nested_states() -> None:
    x = torch.arange(6.0).view(3, 2)
    state = ((Pair(x, None), x + 10), (x + 20,))
    chosen = select_rows(state, torch.tensor([2, 0, 2, 1]))
    assert isinstance(chosen[0][0], Pair)
    assert chosen[0][0].b is None
    assert chosen[0][0].a.tolist() == [[4, 5], [0, 1], [4, 5], [2, 3]]
    assert chosen[1][0].tolist() == [[24, 25], [20, 21], [24, 25], [22, 23]]


def test_what_is_shared_is_only_looked_up() -> None:
    memory = torch.randn(2, 5)
    shared = Shared((memory, None), torch.tensor([0, 0, 1]))
    chosen = select_rows((shared, torch.arange(3)), torch.tensor([2, 1]))[0]
    assert isinstance(chosen, Shared)
    assert chosen.value[0] is memory
    assert chosen.rows.tolist() == [1, 0]
    assert_close(chosen.expand()[0], memory[[1, 0]])
    assert chosen.expand()[1] is None


@given(first=st.lists(st.integers(0, 3), min_size=1), data=st.data())
def test_choosing_twice_is_choosing_the_chosen(first: list[int], data: st.DataObject) -> None:
    second = data.draw(st.lists(st.integers(0, len(first) - 1)))
    state = (torch.arange(4), Shared(torch.arange(4) * 10, torch.tensor([3, 2, 1, 0])))
    a, b = torch.tensor(first), torch.tensor(second, dtype=torch.long)
    plain, shared = select_rows(select_rows(state, a), b)
    assert plain.tolist() == a[b].tolist()
    assert shared.expand().tolist() == [30 - 10 * row for row in a[b].tolist()]


def test_map_and_detach_keep_the_structure() -> None:
    x = torch.ones(2, requires_grad=True)
    doubled = map_state(torch.add, Pair(x, None), Pair(x, None))
    assert isinstance(doubled, Pair)
    assert doubled.a.tolist() == [2, 2]
    assert not detach((doubled,))[0].a.requires_grad
    with pytest.raises(TypeError, match="not list"):
        map_state(torch.add, [x])
