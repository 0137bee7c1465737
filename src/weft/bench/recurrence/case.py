"""A case of the recurrence benchmark: cell, size, device, number format. Plain values, to be sent to a process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Self

import torch

from weft.bench.machine import choose_place
from weft.errors import ConfigError, did_you_mean
from weft.nn import UnknownCell

DTYPES: Final[dict[str, torch.dtype]] = {
    "float32": torch.float32,
    "bf16": torch.bfloat16,
    "fp16": torch.float16,
}

CELL_NAMES: Final = ("lstm", "gru_reset_after", "elman", "gru", "peephole_lstm")
"""The default cells: three that have vendor kernels, and two that have none."""


class Size(NamedTuple):
    """Rows of the batch, time steps, hidden size; the input has the hidden size too."""

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
"""The default sizes."""


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
        """The line above a table: the settings that all its cases share."""
        parts = [f"one layer{', weights in float32' if self.autocast else ''}, input as wide as the state"]
        parts += ["rows of T/2 to T steps, packed for torch.nn"] if self.lengths else []
        parts += ["both directions"] if self.bidirectional else []
        return ", ".join(parts)


def plan_cases(
    cells: Sequence[str],
    sizes: Sequence[str],
    *,
    known: Mapping[str, Any],
    device: str,
    dtypes: Sequence[str] = (),
    **switches: bool,
) -> list[Case]:
    """Return every cell with every size and type, by default those that suit the device; raise on any wrong option."""
    for name in cells:
        if name not in known:
            raise UnknownCell(name, known, where="--cell")
    place = choose_place(device)
    chosen = [Size.parse(text) for text in sizes] or SIZES[place.type]
    return [
        Case(cell=name, size=size, place=str(place), dtype=dtype, **switches)
        for size in chosen
        for name in cells or CELL_NAMES
        for dtype in dtype_names(dtypes, place)
    ]


def dtype_names(given: Sequence[str], place: torch.device) -> list[str]:
    """The types to measure: "auto", which is also the default, is bf16 on a GPU and float32 on a CPU."""
    for dtype in given:
        if dtype not in ("auto", *DTYPES):
            cure = did_you_mean(dtype, ["auto", *DTYPES])
            raise ConfigError(f'"{dtype}" is not a choice', where="--dtype", cure=cure)
    usual = "bf16" if place.type == "cuda" else "float32"
    return list(dict.fromkeys(usual if dtype == "auto" else dtype for dtype in given or ["auto"]))
