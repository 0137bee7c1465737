"""A case of the decode benchmark: the size of a translator, its searches, and the contenders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, Final

import torch

from weft.bench.machine import choose_place
from weft.errors import ConfigError, did_you_mean
from weft.text import SPECIALS

PACKAGES: Final[Mapping[str, str | None]] = {
    "weft": None,
    "huggingface": "transformers",
    "ctranslate2": "ctranslate2",
    "ctranslate2-int8": "ctranslate2",
}
"""The contenders, and the package that each needs."""

KINDS: Final = ("transformer", "rnn")

SIZES: Final[Mapping[str, Mapping[str, int]]] = {
    "cpu": {"layers": 3, "width": 256, "heads": 4, "feedforward": 1024, "words": 8000, "length": 32},
    "cuda": {"layers": 6, "width": 512, "heads": 8, "feedforward": 2048, "words": 32000, "length": 64},
}
"""The default sizes."""

RECURRENT_SIZES: Final[Mapping[str, int]] = {"layers": 2, "width": 512}
"""The default sizes of `rnn`, where they differ."""

BATCHES: Final = {"cpu": (32,), "cuda": (64,)}
BEAMS: Final = {"cpu": (4,), "cuda": (1, 5)}


@dataclass(frozen=True, kw_only=True)
class DecodeCase:
    """A translator, the tokens of each source and of each translation, and the searches to time."""

    place: str
    kind: str
    layers: int
    width: int
    heads: int
    feedforward: int
    words: int
    length: int
    beams: tuple[int, ...]
    batches: tuple[int, ...]
    contenders: tuple[str, ...]
    repeats: int

    @property
    def device(self) -> torch.device:
        return torch.device(self.place)

    @property
    def dtype(self) -> torch.dtype:
        return torch.bfloat16 if self.device.type == "cuda" else torch.float32

    def tree(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self) | {name: list(getattr(self, name)) for name in ("beams", "batches", "contenders")}

    def describe(self) -> str:
        """The line above the table: the settings that all its rows share."""
        net = f"{self.layers}+{self.layers} layers of width {self.width}"
        if self.kind == "rnn":
            net = f"LSTM, {net}, attention"
        else:
            net += f", {self.heads} heads, feed-forward {self.feedforward}"
        numbers = "bf16" if self.device.type == "cuda" else "float32"
        texts = f"{self.length} tokens read, {self.length} written by each"
        return f"{net}, {self.words:,} words; {texts}; {numbers}; from tokens to tokens, median of {self.repeats}"


def plan_decode(
    *,
    device: str = "auto",
    kind: str = "transformer",
    sizes: Mapping[str, int | None] | None = None,
    beams: Sequence[int] = (),
    batches: Sequence[int] = (),
    contenders: Sequence[str] = (),
    repeats: int = 5,
) -> DecodeCase:
    """Build a case; what is not given suits the device. Raises on any wrong option."""
    if kind not in KINDS:
        raise ConfigError(f'"{kind}" is not a kind', where="--kind", cure=did_you_mean(kind, KINDS))
    place = choose_place(device)
    given = {name: size for name, size in (sizes or {}).items() if size is not None}
    chosen = {**SIZES[place.type], **(RECURRENT_SIZES if kind == "rnn" else {}), **given}
    for name, size in chosen.items():
        least = len(SPECIALS) + 1 if name == "words" else 1
        if size < least:
            raise ConfigError(f"{size} is too small", where=f"--{name}", cure=f"use at least {least}")
    if kind == "transformer" and chosen["width"] % chosen["heads"]:
        what = f"{chosen['width']} cannot be shared out to {chosen['heads']} heads"
        raise ConfigError(what, where="--width", cure=f"use a multiple of {chosen['heads']}")
    for beam in beams:
        if beam >= chosen["words"] - len(SPECIALS):
            cure = f"use less than {chosen['words'] - len(SPECIALS)}, the words that there are"
            raise ConfigError(f"{beam} is too wide", where="--beam", cure=cure)
    return DecodeCase(
        place=str(place),
        kind=kind,
        beams=tuple(dict.fromkeys(beams)) or BEAMS[place.type],
        batches=tuple(dict.fromkeys(batches)) or BATCHES[place.type],
        contenders=_check_contenders(contenders, kind),
        repeats=repeats,
        **chosen,
    )


def installed(case: DecodeCase) -> tuple[list[str], list[str]]:
    """Return the contenders whose package is installed, and a remark for each other one."""
    missing = {who for who in case.contenders if (package := PACKAGES[who]) and find_spec(package) is None}
    lines = [
        f"without {who}: the package {PACKAGES[who]} is not installed" for who in case.contenders if who in missing
    ]
    return [who for who in case.contenders if who not in missing], lines


def versions(contenders: Sequence[str]) -> dict[str, str]:
    """The versions of the packages that take part."""
    packages = dict.fromkeys(package for who in contenders if (package := PACKAGES[who]))
    return {package: version(package) for package in packages}


def _check_contenders(names: Sequence[str], kind: str) -> tuple[str, ...]:
    for name in names:
        if name not in PACKAGES:
            cure = did_you_mean(name, PACKAGES)
            raise ConfigError(f'"{name}" is not a contender', where="--contender", cure=cure)
        if kind == "rnn" and name != "weft":
            cure = "measure weft alone, or transformers"
            raise ConfigError(f'"{name}" has no recurrent translators', where="--contender", cure=cure)
    return tuple(dict.fromkeys(names)) or (("weft",) if kind == "rnn" else tuple(PACKAGES))
