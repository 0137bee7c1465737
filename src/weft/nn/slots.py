"""States of fixed shape: A slots of K rows each, one sentence in a slot, row a·K + k its k-th hypothesis.

A search that keeps its shape can take new sentences where old ones ended, and can be recorded once and replayed. Such a
state is written in place, so it has one future; select_rows does not apply to it, the functions here do.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.nn.attention.kv_cache import KVCache
from weft.nn.state import Shared, State, map_state, rebuild, select_rows


def in_slots(state: State, each: int) -> State:
    """A new state whose rows lie in slots of `each`, told so."""
    if isinstance(state, Shared):
        return state._replace(each=each)
    if isinstance(state, tuple) and not isinstance(state, KVCache):
        return rebuild(state, [in_slots(part, each) for part in state])
    return state


def own(state: State) -> State:
    """The same state in memory of its own, to be written over: what a model starts with may be one row for all. What
    rows share was made for them and is nobody else's."""
    if isinstance(state, KVCache) or state is None:
        return state
    if isinstance(state, Shared):
        return state._replace(value=map_state(Tensor.contiguous, state.value))
    if isinstance(state, tuple):
        return rebuild(state, [own(part) for part in state])
    return state.clone(memory_format=torch.contiguous_format)


def reorder(state: State, rows: Tensor) -> State:
    """Row i becomes what row rows[i] was, which lies in the same slot."""
    if isinstance(state, Shared) or state is None:
        return state
    if isinstance(state, KVCache):
        return state if state.origin is None else state._replace(origin=state.origin.index_select(0, rows))
    if isinstance(state, tuple):
        return rebuild(state, [reorder(part, rows) for part in state])
    return state.index_select(0, rows)


def keep(state: State, slots: Tensor, each: int) -> State:
    """The state of those slots alone."""
    rows = rows_of(slots, each)
    if isinstance(state, Shared):
        owners = torch.arange(slots.numel(), device=slots.device).repeat_interleave(each)
        return Shared(select_rows(state.value, slots), owners, each)
    if isinstance(state, KVCache):
        keys, values = (tuple(store.index_select(0, rows) for store in stores) for stores in state[:2])
        origin = state.origin
        if origin is not None:
            moved = rows - torch.arange(rows.numel(), device=rows.device)
            origin = origin.index_select(0, rows) - moved[:, None]
        return KVCache(keys, values, origin, state.length.index_select(0, rows))
    if isinstance(state, tuple):
        return rebuild(state, [keep(part, slots, each) for part in state])
    return None if state is None else state.index_select(0, rows)


def put(state: State, slots: Tensor, new: State, each: int) -> None:
    """Write a new state of as many slots over those slots. What is shorter than its place is padded with zeros."""
    rows = rows_of(slots, each)
    if isinstance(state, Shared):
        _put(state.value, slots, new.value)
    elif isinstance(state, KVCache):  # what lies in the store is not read before it is written again
        state.length.index_copy_(0, rows, new.length)
    elif isinstance(state, tuple):
        for part, given in zip(state, new, strict=True):
            put(part, slots, given, each)
    else:
        _put(state, rows, new)


def first_of(state: State, slots: Tensor, each: int) -> State:
    """The first row of each of those slots, as slots of one row."""
    if isinstance(state, Shared):
        return Shared(select_rows(state.value, slots), torch.arange(slots.numel(), device=slots.device), 1)
    if isinstance(state, tuple):
        return rebuild(state, [first_of(part, slots, each) for part in state])
    return None if state is None else state.index_select(0, slots * each)


def spread(state: State, slots: Tensor, new: State, each: int) -> None:
    """All rows of those slots go on from the one row that each has in a new state. What they share is as it was."""
    if isinstance(state, tuple) and not isinstance(state, Shared):
        for part, given in zip(state, new, strict=True):
            spread(part, slots, given, each)
    elif isinstance(state, Tensor):
        state.index_copy_(0, rows_of(slots, each), new.repeat_interleave(each, dim=0).to(state.dtype))


def write(state: State, new: State) -> None:
    """Make a state of buffers equal to the one that a step made from it."""
    pairs = list(_pairs(state, new))
    if pairs:
        torch._foreach_copy_([to for to, _ in pairs], [given for _, given in pairs])


def rows_of(slots: Tensor, each: int) -> Tensor:
    """slots (A,) -> their rows (A·K,)."""
    if each == 1:
        return slots
    return (slots[:, None] * each + torch.arange(each, device=slots.device)).flatten()


def _pairs(state: State, new: State) -> list[tuple[Tensor, Tensor]]:
    if state is None or state is new or isinstance(state, Shared):
        return []
    if isinstance(state, KVCache):
        return [pair for name in ("origin", "length") for pair in _pairs(getattr(state, name), getattr(new, name))]
    if isinstance(state, tuple):
        return [pair for part, given in zip(state, new, strict=True) for pair in _pairs(part, given)]
    return [(state, new)]


def _put(value: State, places: Tensor, new: State) -> None:
    if value is None:
        return
    if isinstance(value, tuple):
        for part, given in zip(value, new, strict=True):
            _put(part, places, given)
    elif value.shape[1:] == new.shape[1:]:
        value.index_copy_(0, places, new)
    else:
        value.index_fill_(0, places, 0)
        corner = tuple(slice(size) for size in new.shape[1:])
        value[(slice(None), *corner)].index_copy_(0, places, new)
