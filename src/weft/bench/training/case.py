"""A case of the training benchmark: the size of a translator, its batch, and the contenders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Final

import torch

from weft.bench.machine import choose_place
from weft.errors import ConfigError, did_you_mean
from weft.extras import EXTRAS
from weft.text import SPECIALS

CONTENDERS: Final = ("weft", "huggingface", "huggingface-compiled")

SIZES: Final[dict[str, dict[str, int]]] = {
    "cpu": {"layers": 3, "width": 256, "heads": 4, "feedforward": 1024, "words": 8000, "rows": 32, "length": 32},
    "cuda": {"layers": 6, "width": 512, "heads": 8, "feedforward": 2048, "words": 32000, "rows": 256, "length": 64},
}
"""The default sizes."""

UPDATES_PER_SAMPLE: Final = {"cpu": 2, "cuda": 10}
"""The default length of a sample: on a GPU enough for the host to queue work ahead."""


@dataclass(frozen=True, kw_only=True)
class TrainingCase:
    """A transformer with as many layers in the encoder as in the decoder, all embeddings in one table.

    rows × length is the batch, or with `data` the budget of tokens. compile is weft's own setting.
    """

    place: str
    layers: int
    width: int
    heads: int
    feedforward: int
    words: int
    rows: int
    length: int
    dropout: float
    compile: bool
    data: tuple[str, ...] = ()
    contenders: tuple[str, ...] = CONTENDERS[:2]
    updates: int
    repeats: int

    @property
    def device(self) -> torch.device:
        return torch.device(self.place)

    def tree(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self) | {"data": list(self.data), "contenders": list(self.contenders)}

    def describe(self) -> str:
        """The line above the table: the settings that all its rows share."""
        parts = [
            f"{self.layers}+{self.layers} layers of width {self.width}, {self.heads} heads, feed-forward "
            f"{self.feedforward}, {self.words:,} shared words, dropout {self.dropout:g}",
            f"{' and '.join(self.data)}, {self.rows}×{self.length} tokens per update"
            if self.data
            else f"{self.rows}×{self.length} tokens without padding",
            "bf16 by autocast" if self.device.type == "cuda" else "float32",
            f"whole updates, median of {self.repeats} samples of {self.updates}",
        ]
        return "; ".join(parts)


def plan_training(
    *,
    device: str = "auto",
    sizes: dict[str, int | None] | None = None,
    dropout: float = 0.1,
    compile: bool | None = None,
    data: Sequence[str] = (),
    contenders: Sequence[str] = (),
    updates: int | None = None,
    repeats: int = 15,
) -> TrainingCase:
    """Build a case; what is not given suits the device. Raises on any wrong option; files are read later."""
    place = choose_place(device)
    given = {name: size for name, size in (sizes or {}).items() if size is not None}
    chosen = SIZES[place.type] | given
    _check_sizes(chosen)
    return TrainingCase(
        place=str(place),
        dropout=dropout,
        compile=place.type == "cuda" if compile is None else compile,
        data=tuple(data),
        contenders=_check_contenders(contenders),
        updates=updates or UPDATES_PER_SAMPLE[place.type],
        repeats=repeats,
        **chosen,
    )


def transformers_version(case: TrainingCase) -> str | None:
    """The version of transformers, if it takes part."""
    return version("transformers") if case.contenders != ("weft",) else None


def _check_sizes(sizes: dict[str, int]) -> None:
    least = dict.fromkeys(sizes, 1) | {"words": len(SPECIALS) + 1, "length": 2}
    for name, size in sizes.items():
        if size < least[name]:
            raise ConfigError(f"{size} is too small", where=f"--{name}", cure=f"use at least {least[name]}")
    width, heads = sizes["width"], sizes["heads"]
    if width % (2 * heads):
        cure = f"use a multiple of {2 * heads}"
        raise ConfigError(f"{width} cannot be shared out to {heads} heads of even size", where="--width", cure=cure)


def _check_contenders(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in CONTENDERS:
            cure = did_you_mean(name, CONTENDERS)
            raise ConfigError(f'"{name}" is not a contender', where="--contender", cure=cure)
    chosen = tuple(dict.fromkeys(names)) or CONTENDERS[:2]
    if find_spec("transformers") is None and chosen != ("weft",):
        cure = f"{EXTRAS['hf'].install}, or measure weft alone: --contender weft"
        raise ConfigError("the package transformers is not installed", where="--contender", cure=cure)
    return chosen
