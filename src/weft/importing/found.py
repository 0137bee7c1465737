"""The result of reading a checkpoint, and names of the tensors of a transformer in weft.

joint maps: query, key and value of self-attention in one product, key and value of attention to a memory in one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from weft.importing.checkpoint import Checkpoint
from weft.tasks import Codec

Named = Iterator[tuple[str, Tensor]]

ACTIVATIONS: Final = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "silu": "silu",
    "swish": "silu",
}
"""Their names of activations and ours."""

KINDS: Final = ("weight", "bias")


@dataclass(frozen=True)
class Found:
    """The sections of a run's configuration, its codec, and its tensors by their names in weft."""

    task: str
    model: Mapping[str, Any]
    codec: Codec
    tensors: Named
    text: Mapping[str, Any] = field(default_factory=lambda: {"kind": "imported"})
    data: Mapping[str, Any] = field(default_factory=dict)
    decode: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    """Differences from the other software."""


def affine(checkpoint: Checkpoint, theirs: str, ours: str, *shape: int) -> Named:
    """A map (out, in), or a norm (width,), with its bias."""
    yield f"{ours}.weight", checkpoint.tensor(f"{theirs}.weight", *shape)
    yield f"{ours}.bias", checkpoint.tensor(f"{theirs}.bias", shape[0])


def joined(checkpoint: Checkpoint, theirs: list[str], ours: str, *shape: int) -> Named:
    """Several maps (out, in) as one."""
    for kind in KINDS:
        own = shape if kind == "weight" else shape[:1]
        yield f"{ours}.{kind}", torch.cat([checkpoint.tensor(f"{name}.{kind}", *own) for name in theirs])
