"""States of fixed shape: A slots of K rows, one sentence in a slot; row a·K + k is the k-th hypothesis of slot a.

A search of fixed shape can start new sentences in slots where others ended, and can be recorded once and replayed. Such
a state is written in place, so only its last version is valid. Use the functions here for it, and not select_rows. In
all of them `width` is K.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.nn.attention.kv_cache import KVCache
from weft.nn.state import Shared, State, map_state, rebuild, select_rows


def in_slots(state: State, width: int) -> State:
    """Mark the parts of a state that rows share as slots of `width`."""
    if isinstance(state, Shared):
        return state._replace(width=width)
    if isinstance(state, tuple) and not isinstance(state, KVCache):
        return rebuild(state, [in_slots(part, width) for part in state])
    return state


def own(state: State) -> State:
    """A copy that can be written in place: rows of a first state may be views of one row. What rows share is a copy
    already."""
    if isinstance(state, KVCache) or state is None:
        return state
    if isinstance(state, Shared):
        return state._replace(value=map_state(Tensor.contiguous, state.value))
    if isinstance(state, tuple):
        return rebuild(state, [own(part) for part in state])
    return state.clone(memory_format=torch.contiguous_format)


def reorder(state: State, rows: Tensor) -> State:
    """The state whose row i is row rows[i] of the given one, in the same slot."""
    if isinstance(state, Shared) or state is None:
        return state
    if isinstance(state, KVCache):
        return state if state.origin is None else state._replace(origin=state.origin.index_select(0, rows))
    if isinstance(state, tuple):
        return rebuild(state, [reorder(part, rows) for part in state])
    return state.index_select(0, rows)


def keep(state: State, slots: Tensor, width: int) -> State:
    """The state of those slots alone."""
    rows = rows_of(slots, width)
    if isinstance(state, Shared):
        owners = torch.arange(slots.numel(), device=slots.device).repeat_interleave(width)
        return Shared(select_rows(state.value, slots), owners, width)
    if isinstance(state, KVCache):
        keys, values = (tuple(store.index_select(0, rows) for store in stores) for stores in state[:2])
        origin = state.origin
        if origin is not None:
            moved = rows - torch.arange(rows.numel(), device=rows.device)
            origin = origin.index_select(0, rows) - moved[:, None]
        return KVCache(keys, values, origin, state.length.index_select(0, rows))
    if isinstance(state, tuple):
        return rebuild(state, [keep(part, slots, width) for part in state])
    return None if state is None else state.index_select(0, rows)


def put(state: State, slots: Tensor, new: State, width: int) -> None:
    """Overwrite slots (n,) with a new state of n slots. Tensors that are smaller than their destination are padded with
    zeros."""
    rows = rows_of(slots, width)
    if isinstance(state, Shared):
        _put(state.value, slots, new.value)
    elif isinstance(state, KVCache):  # old keys and values are not read before they are written again
        state.length.index_copy_(0, rows, new.length)
    elif isinstance(state, tuple):
        for part, given in zip(state, new, strict=True):
            put(part, slots, given, width)
    else:
        _put(state, rows, new)


def move(state: State, slots: Tensor, old: State, places: Tensor, width: int) -> None:
    """Copy slots `places` (n,) of an old state into slots (n,) of one that has just been reserved, whose tensors
    are as large or larger."""
    rows, before = rows_of(slots, width), rows_of(places, width)
    if isinstance(state, Shared):
        _put(state.value, slots, select_rows(old.value, places))
    elif isinstance(state, KVCache):
        for stores, given in ((state.keys, old.keys), (state.values, old.values)):
            for store, kept in zip(stores, given, strict=True):
                store[:, :, : kept.size(2)].index_copy_(0, rows, kept.index_select(0, before))
        if state.origin is not None:
            origin = old.origin.index_select(0, before) + (rows - before)[:, None]
            state.origin[:, : origin.size(1)].index_copy_(0, rows, origin)
        state.length.index_copy_(0, rows, old.length.index_select(0, before))
    elif isinstance(state, tuple):
        for part, given in zip(state, old, strict=True):
            move(part, slots, given, places, width)
    elif state is not None:
        _put(state, rows, old.index_select(0, before))


def first_of(state: State, slots: Tensor, width: int) -> State:
    """The first row of slots (n,), as n slots of one row."""
    if isinstance(state, Shared):
        return Shared(select_rows(state.value, slots), torch.arange(slots.numel(), device=slots.device), 1)
    if isinstance(state, tuple):
        return rebuild(state, [first_of(part, slots, width) for part in state])
    return None if state is None else state.index_select(0, slots * width)


def spread(state: State, slots: Tensor, new: State, width: int) -> None:
    """Overwrite all rows of slots (n,) with the row that each has in a new state of n rows. What rows share is kept."""
    if isinstance(state, tuple) and not isinstance(state, Shared):
        for part, given in zip(state, new, strict=True):
            spread(part, slots, given, width)
    elif isinstance(state, Tensor):
        state.index_copy_(0, rows_of(slots, width), new.repeat_interleave(width, dim=0).to(state.dtype))


def written(state: State) -> list[Tensor]:
    """The tensors of a state that each step replaces, in the order of its fields: neither what rows share nor the keys
    and values of a cache, which a step extends in place."""
    if state is None or isinstance(state, Shared):
        return []
    if isinstance(state, KVCache):
        return [*written(state.origin), *written(state.length)]
    if isinstance(state, tuple):
        return [tensor for part in state for tensor in written(part)]
    return [state]


def write(state: State, new: State) -> None:
    """Copy the state that a step returned into the buffers of the state before it."""
    pairs = [(to, given) for to, given in zip(written(state), written(new), strict=True) if to is not given]
    if not pairs:
        return
    # A step may pass on a tensor of the old state in another place of the new one.
    buffers = {to.untyped_storage().data_ptr() for to, _ in pairs}
    moved = [given.clone() if given.untyped_storage().data_ptr() in buffers else given for _, given in pairs]
    torch._foreach_copy_([to for to, _ in pairs], moved)


def rows_of(slots: Tensor, width: int) -> Tensor:
    """slots (A,) -> their rows (A·K,)."""
    if width == 1:
        return slots
    return (slots[:, None] * width + torch.arange(width, device=slots.device)).flatten()


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
