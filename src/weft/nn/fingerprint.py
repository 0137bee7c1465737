"""What a module computes beside the values of its tensors: code that was made for it holds until that changes."""

from __future__ import annotations

from typing import Any, Final

from torch import nn

INTERNAL: Final = frozenset(vars(nn.Module())) - {"training"}
HOOKS: Final = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def is_hooked(module: nn.Module) -> bool:
    """Whether a module or a part of it has hooks."""
    values = vars(module)
    return any(values[name] for name in HOOKS) or any(
        is_hooked(child) for child in values["_modules"].values() if child
    )


def fingerprint(module: nn.Module) -> tuple[Any, ...]:
    """Everything that a call may depend on beside the values of tensors: attributes, shapes, types, parts."""
    values = vars(module)
    tensors = (*values["_parameters"].items(), *values["_buffers"].items())
    return (
        type(module),
        tuple((name, None if tensor is None else (tensor.shape, tensor.dtype)) for name, tensor in tensors),
        tuple((name, _plain(value)) for name, value in values.items() if name not in INTERNAL),
        tuple(fingerprint(child) for child in values["_modules"].values() if child is not None),
    )


def _plain(value: Any) -> Any:
    """A value that can be compared with a later one; of an object only which one it is."""
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value
    if isinstance(value, (list, tuple)):
        return tuple(_plain(part) for part in value)
    if isinstance(value, dict):
        return tuple((_plain(name), _plain(part)) for name, part in value.items())
    return id(value)
