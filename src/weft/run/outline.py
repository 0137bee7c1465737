"""Models that are sizes alone: on the "meta" device, where nothing is drawn at random."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

DRAWS: Final[tuple[Callable[..., Any], ...]] = (Tensor.normal_, nn.init.normal_)
"""On the "meta" device these do nothing, but make torch load its compiler for it, which takes longer than all the rest
of loading a run."""


class Undrawn(TorchFunctionMode):
    """Normal numbers are not drawn: a tensor stays as it is."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func in DRAWS:
            return args[0] if args else named["tensor"]
        return func(*args, **named)


@contextmanager
def outlines() -> Iterator[None]:
    """Within this, a model that is built takes no memory and has no numbers."""
    with torch.device("meta"), Undrawn():
        yield
