"""What one row of a benchmark is about; plain values, so that another process can be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import torch

from weft.errors import ConfigError, did_you_mean
from weft.nn import UnknownCell
from weft.training import choose_device

DTYPES: Final[dict[str, torch.dtype]] = {
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}

CELL_NAMES: Final = ("lstm", "gru_reset_after", "elman", "gru", "peephole_lstm")
"""Unless asked: three that vendors have kernels for, and two that they have none for."""


class Size(NamedTuple):
    """Rows of the batch, time steps, hidden size; the input is as wide as the hidden state."""

    batch: int
    time: int
    hidden: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read "B,T,H"."""
        parts = [part.strip() for part in text.split(",")]
        if len(parts) != 3 or not all(part.isdecimal() and int(part) > 0 for part in parts):
            cure = "batch, time and hidden size, as in 32,64,128"
            raise ConfigError(f'"{text}" is not three whole numbers above 0', where="--size", cure=cure)
        return cls(*map(int, parts))

    def __str__(self) -> str:
        return ",".join(map(str, self))


SIZES: Final = {
    "cpu": (Size(32, 64, 128), Size(64, 64, 512), Size(16, 128, 256)),
    "cuda": (Size(64, 256, 512), Size(16, 512, 256)),
}
"""Unless asked."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One layer of one cell on one size of data. With autocast the weights stay in float32."""

    cell: str
    size: Size
    place: str
    dtype: str
    lengths: bool = False
    bidirectional: bool = False
    autocast: bool = False

    @property
    def device(self) -> torch.device:
        return torch.device(self.place)

    @property
    def weight_dtype(self) -> torch.dtype:
        return torch.float32 if self.autocast else DTYPES[self.dtype]

    def row_lengths(self) -> torch.Tensor:
        """(B,): all T; or spread evenly from T/2 to T, in no order."""
        batch, time, _ = self.size
        if not self.lengths:
            return torch.full((batch,), time)
        spread = torch.linspace(time, max(1, time // 2), batch).round().long()
        return spread[torch.randperm(batch, generator=torch.Generator().manual_seed(0))]

    def describe(self) -> str:
        """What all cases of a table have in common."""
        parts = [f"one layer in {self.dtype}{' by autocast' if self.autocast else ''}, input as wide as the state"]
        parts += ["rows of T/2 to T steps, packed for torch.nn"] if self.lengths else []
        parts += ["both directions"] if self.bidirectional else []
        return ", ".join(parts)


def plan_cases(
    cells: Sequence[str], sizes: Sequence[str], *, known: Mapping[str, Any], device: str, dtype: str, **switches: bool
) -> list[Case]:
    """Every cell with every size; where none is named, those that suit the device. All mistakes are found here."""
    for name in cells:
        if name not in known:
            raise UnknownCell(name, known, where="--cell")
    place = choose_place(device)
    if dtype == "auto":
        dtype = "bf16" if place.type == "cuda" else "float32"
    elif dtype not in DTYPES:
        raise ConfigError(f'"{dtype}" is not a choice', where="--dtype", cure=did_you_mean(dtype, ["auto", *DTYPES]))
    asked = [Size.parse(text) for text in sizes] or SIZES[place.type]
    return [
        Case(cell=name, size=size, place=str(place), dtype=dtype, **switches)
        for size in asked
        for name in cells or CELL_NAMES
    ]


def choose_place(name: str) -> torch.device:
    """The device of that name, or the one that `auto` means."""
    kinds = ("auto", *SIZES)
    if name not in kinds:
        raise ConfigError(f'"{name}" is not a device to measure on', where="--device", cure=did_you_mean(name, kinds))
    try:
        return choose_device(name)
    except ConfigError as error:
        raise ConfigError(error.what, where="--device", cure="use cpu") from None
