"""From the encoder's last state to the decoder's first.

learned   s = tanh(W h + b) for each part of the decoder's state, h being the last states of the encoder's top layer
copy      the encoder's state as it is, where both have the same shape
none      the decoder's own start, zeros

A cell whose equations do not hold for every state makes one of them from s, by `Cell.first_state`.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import nn

from weft.errors import ConfigError
from weft.models.memory import Encoder
from weft.nn import RNN, leaves_of, map_state

BridgeKind = Literal["learned", "copy", "none"]


class Bridge(nn.Module):
    """The map between one encoder and one recurrent decoder, whose states may differ in size and number."""

    def __init__(self, kind: BridgeKind, encoder: Encoder, decoder: RNN) -> None:
        super().__init__()
        self.kind = kind
        self.empty, self.fit = decoder.initial_state, decoder.first_state
        given, wanted = encoder.final_like(), decoder.initial_state(1, torch.empty(0))
        if kind == "copy" and _shape(given) != _shape(wanted):
            raise ConfigError(
                f'"copy" needs equal states, but the encoder ends with {_shape(given)} and the decoder starts with '
                f"{_shape(wanted)}",
                where="model.decoder.bridge",
                cure='use "learned", or rnns of the same cell, hidden and layers on both sides, read in one direction',
            )
        width = sum(_sizes(given[-1]))
        self.maps = nn.ModuleList(nn.Linear(width, size) for size in (_sizes(wanted) if kind == "learned" else []))

    def forward(self, final: Any) -> Any:
        """The encoder's last state -> the decoder's first state."""
        if self.kind == "copy":
            return final
        top = torch.cat(leaves_of(final[-1]), dim=-1)
        empty = self.empty(top.size(0), top)
        if self.kind == "none":
            return empty
        maps = iter(self.maps)
        return self.fit(map_state(lambda _: torch.tanh(next(maps)(top)), empty))


def _sizes(state: Any) -> list[int]:
    return [tensor.size(-1) for tensor in leaves_of(state)]


def _shape(state: Any) -> str:
    """Sizes, structure and field names of a state: two layers with one tensor differ from one layer with two."""
    return repr(map_state(lambda tensor: tensor.size(-1), state))
