"""Encoders of the user's own below a head: the settings of both in one table."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Iterator, Mapping
from functools import cache
from typing import ClassVar

from weft.models.translator import ENCODERS
from weft.settings import Settings


class HeadedKinds(UserDict[str, type[Settings]]):
    """The settings of `[model]` for an encoder with a head, by their `kind`: those of its own, and for each further
    encoder in `ENCODERS` its settings together with those of the head."""

    def __init__(self, own: Mapping[str, type[Settings]], *head: type[Settings]) -> None:
        super().__init__(own)
        self.head = head

    def __missing__(self, kind: str) -> type[Settings]:
        return combine(ENCODERS[kind], self.head)

    def __contains__(self, kind: object) -> bool:
        return kind in self.data or kind in ENCODERS

    def __iter__(self) -> Iterator[str]:
        return iter({**self.data, **ENCODERS})

    def __len__(self) -> int:
        return len({**self.data, **ENCODERS})


@cache
def combine(encoder: type[Settings], head: tuple[type[Settings], ...]) -> type[Settings]:
    """The settings of an encoder and of a head; an encoder without dropout has a head without."""
    own = {} if "dropout" in encoder.model_fields else {"dropout": 0.0, "__annotations__": {"dropout": ClassVar[float]}}
    names = {"__module__": encoder.__module__, "__doc__": encoder.__doc__, **own}
    return type(f"{encoder.__name__}With{head[-1].__name__}", (*head, encoder), names)
