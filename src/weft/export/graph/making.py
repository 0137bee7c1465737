"""A program in the making: the weights that its graphs share, and facts of the data that shapes depend on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import torch
from torch import nn

from weft.export.graph.build import Builder
from weft.export.graph.graph import StateField, Value
from weft.export.graph.weights import Weights

RAGGED: Final = frozenset({"source", "words", "letters"})
"""The axes whose length differs between the rows of a batch."""


@dataclass
class Making:
    """Begins the graphs of one program."""

    dtype: str
    picture: tuple[int, int] | None = None
    """The side and the channels of the pictures that a captioner reads."""
    weights: Weights = field(default_factory=Weights)

    @classmethod
    def of(cls, model: nn.Module, *, picture: tuple[int, int] | None = None) -> Making:
        wide = any(weight.dtype == torch.float64 for weight in model.parameters())
        return cls("float64" if wide else "float32", picture)

    def begin(self, name: str) -> Builder:
        return Builder(name, self.weights, dtype=self.dtype)


def read_state(build: Builder, fields: Iterable[StateField]) -> dict[str, Value]:
    """An input for each field of a state."""
    return {one.name: build.input(one.name, one.shape) for one in fields}


def fields_of(state: dict[str, Value], shared: frozenset[str], growing: Iterable[StateField]) -> tuple[StateField, ...]:
    """The fields of a state, from the values that it starts with and the fields that are empty at first."""
    found = [StateField(name, value.shape, shared=name in shared) for name, value in state.items()]
    return (*found, *growing)
