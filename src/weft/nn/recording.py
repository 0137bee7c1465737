"""What recordings of a network, kept for later, have to know: whether its tensors still lie where they lay."""

from __future__ import annotations

from collections.abc import Mapping
from weakref import WeakKeyDictionary

from torch import Tensor, nn

_held: WeakKeyDictionary[nn.Module, tuple[Mapping[str, Tensor | None], ...]] = WeakKeyDictionary()


def addresses(network: nn.Module) -> int:
    """A number that changes when a parameter or a buffer moves. This is asked before every replay, so where modules
    keep theirs is looked up once."""
    held = _held.get(network)
    if held is None:
        # Not the modules: who is kept with the network must not keep it.
        every: list[Mapping[str, Tensor | None]] = []
        for part in network.modules():
            every += [part._parameters, part._buffers]
        held = _held[network] = tuple(tensors for tensors in every if tensors)
    return hash(tuple([tensor.data_ptr() for tensors in held for tensor in tensors.values() if tensor is not None]))
