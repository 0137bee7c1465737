"""What an encoder hands to a decoder or a head."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor


class Memory(NamedTuple):
    """`states` (B, S, D), one per position, zero past a row's end; `lengths` (B); `final`, the encoder's last state."""

    states: Tensor
    lengths: Tensor
    final: Any
