"""The cache of recordings evicts what was not used for longest, and nothing that is in use. No GPU is needed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from weft.nn.cuda_graph import GraphCache, addresses


@dataclass
class Fake:
    """A recording that only knows whether a search runs on it."""

    busy: bool = False


def keys_of(cache: GraphCache[Fake]) -> set[str]:
    return {key for key in "abcde" if key in cache}


def full(**busy: bool) -> GraphCache[Fake]:
    """Three recordings, stored in the order of the alphabet."""
    cache: GraphCache[Fake] = GraphCache(3, busy=lambda fake: fake.busy)
    for key in "abc":
        cache.put(key, Fake(busy.get(key, False)))
    return cache


def test_the_least_recently_used_is_evicted() -> None:
    cache = full()
    assert cache.get("a") is not None
    cache.put("d", Fake())
    assert keys_of(cache) == {"a", "c", "d"}
    cache.put("c", Fake())  # stored again, it counts as used, and nothing has to go for it
    cache.put("e", Fake())
    assert keys_of(cache) == {"c", "d", "e"}


def test_a_busy_one_is_kept() -> None:
    cache = full(a=True)
    cache.put("d", Fake())
    assert keys_of(cache) == {"a", "c", "d"}


def test_where_all_are_busy_the_cache_grows_and_shrinks_again() -> None:
    cache = full(a=True, b=True, c=True)
    cache.put("d", Fake())
    assert keys_of(cache) == {"a", "b", "c", "d"}
    for key in "abc":
        found = cache.get(key)
        assert found is not None
        found.busy = False
    cache.make_space()
    assert keys_of(cache) == {"b", "c"}


def test_a_search_for_a_missing_key_changes_nothing() -> None:
    cache = full()
    assert cache.get("e") is None
    cache.put("d", Fake())
    assert keys_of(cache) == {"b", "c", "d"}
    cache.clear()
    assert len(cache) == 0


def test_addresses_change_when_a_parameter_moves() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    before = addresses(network)
    with torch.no_grad():
        network[0].weight.add_(1.0)
    assert addresses(network) == before
    network[1].running_mean = torch.ones(3)
    moved = addresses(network)
    network[0].weight = nn.Parameter(torch.zeros(3, 2))
    assert len({before, moved, addresses(network)}) == 3
