"""What recordings of a network, kept for later, have to know: whether its tensors still lie where they lay."""

from __future__ import annotations

from weakref import WeakKeyDictionary

from torch import nn

_modules: WeakKeyDictionary[nn.Module, tuple[nn.Module, ...]] = WeakKeyDictionary()


def addresses(network: nn.Module) -> int:
    """A number that changes when a parameter or a buffer moves; its parts are looked up once."""
    parts = _modules.get(network)
    if parts is None:
        # Of the network itself only its own tensors: who is kept with it must not keep it.
        parts = _modules[network] = tuple(part for part in network.modules() if part is not network)
    return hash(
        tuple(
            tensor.data_ptr()
            for part in (network, *parts)
            for tensor in (*part._parameters.values(), *part._buffers.values())
            if tensor is not None
        )
    )
