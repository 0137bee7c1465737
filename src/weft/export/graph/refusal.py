"""The error for a part that no graph is written for: one line that names the part, the class and what works."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from weft.errors import ConfigError

Lowerings = Mapping[type[Any], Callable[..., Any]]
"""Functions that write parts of a model as graphs, by the class of the part."""


class NoGraph(ConfigError):
    """A part of a model that cannot be written as a graph of operations."""

    def __init__(self, what: str, *, cure: str) -> None:
        super().__init__(what, where="model", cure=cure)


def lowering_of(table: Lowerings, part: nn.Module, role: str) -> Callable[..., Any]:
    """The function of a table for the class of a part; a class of a user's own has none."""
    found = table.get(type(part))
    if found is None:
        known = ", ".join(kind.__name__ for kind in table)
        what = f"{type(part).__name__} is {role} that exports without torch do not know"
        raise NoGraph(what, cure=f"known are {known}; of your own may be recurrent cells")
    return found
