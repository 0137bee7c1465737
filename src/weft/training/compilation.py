"""Decides whether the blocks of a model are compiled, and compiles them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Literal, NamedTuple, Protocol, runtime_checkable

import torch
from torch import nn

from weft.errors import ConfigError, counted
from weft.nn.recurrent import slow_cells

MIN_UPDATES_TO_COMPILE = 500
"""With fewer updates in all, compiling costs more time than it saves."""


@runtime_checkable
class Compiles(Protocol):
    """A module whose repeated blocks can be compiled: one compiled block serves all."""

    def compile_blocks(self) -> None: ...


class Compilation(NamedTuple):
    """Whether the model is compiled, and notes on that for the user."""

    compiled: bool = False
    notes: tuple[str, ...] = ()

    def measuring(self) -> AbstractContextManager[object]:
        """The context for evaluation: uncompiled, since each of the many shapes of a search would be compiled."""
        return torch.compiler.set_stance("force_eager") if self.compiled else nullcontext()


def compile_model(
    model: nn.Module, setting: Literal["auto"] | bool, *, device: torch.device, updates: int
) -> Compilation:
    """Compile the blocks of the model if the setting is true or, with `auto`, if it saves time.

    The notes also name recurrent cells that run without kernels of their own.
    """
    found = _compile_blocks(model, setting, device=device, updates=updates)
    return found._replace(notes=(*found.notes, *slow_cells(model, device.type)))


def _compile_blocks(
    model: nn.Module, setting: Literal["auto"] | bool, *, device: torch.device, updates: int
) -> Compilation:
    parts = list(_outermost(model))
    if setting is True and not parts:
        raise ConfigError(
            "this model has no blocks to compile",
            where="train.compile = true",
            cure='leave it at "auto", or choose model.kind = "transformer"',
        )
    if not parts or setting is False or (setting == "auto" and device.type != "cuda"):
        return Compilation()
    if setting == "auto" and updates < MIN_UPDATES_TO_COMPILE:
        few = counted(updates, "update")
        note = f"the blocks run uncompiled: {few} would not pay for it (train.compile = true does it)"
        return Compilation(notes=(note,))
    if reason := _obstacle(device):
        return Compilation(notes=(f"the blocks run uncompiled, more slowly: {reason}",))
    for part in parts:
        part.compile_blocks()
    return Compilation(True, ("the blocks are compiled; the first updates take longer",))


def _outermost(module: nn.Module) -> Iterator[Compiles]:
    """Yield the modules that compile their own blocks, without those inside others."""
    if isinstance(module, Compiles):
        yield module
        return
    for child in module.children():
        yield from _outermost(child)


def _obstacle(device: torch.device) -> str:
    """Return why compiling fails on this device, or "". It tries: only that shows what is missing."""
    try:
        torch.compile(_probe)(torch.zeros(8, device=device))
    except Exception as error:
        lines = str(error).strip().splitlines()
        return lines[0] if lines else type(error).__name__
    return ""


def _probe(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).relu()
