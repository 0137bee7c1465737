"""Measures translation by several contenders, in turn, in one process, and compares their translations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, NamedTuple

import torch

from weft.bench.decode.case import DecodeCase, installed
from weft.bench.decode.contenders import Models, Translate
from weft.bench.table import NOTHING
from weft.bench.timing import Contender, time_in_turn
from weft.errors import ConfigError

REST_SECONDS: Final = 0.3
"""The pause between two contenders on a CPU: threads of some keep spinning for a while and would slow down the next."""


@dataclass(frozen=True)
class DecodeFigures:
    """One contender at one batch and beam. Tokens are counted in the best translations; `equal` is the share of
    translations that equal weft's, if weft took part."""

    who: str
    batch: int
    beam: int
    length: int
    seconds: float
    equal: float | None

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.batch * self.length / self.seconds

    def tree(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "contender": self.who,
            "batch": self.batch,
            "beam": self.beam,
            "tokens_per_second": self.rate,
            "step_ms": 1000 * self.seconds / self.length,
            "seconds": self.seconds,
            "equal": self.equal,
        }


class DecodeOutcome(NamedTuple):
    """The figures, and remarks on them for the reader."""

    rows: list[DecodeFigures]
    remarks: list[str]


def measure_decode(case: DecodeCase) -> DecodeOutcome:
    """Measure all contenders of a case that are installed, at every batch and beam."""
    present, remarks = installed(case)
    rows: list[DecodeFigures] = []
    with Models(case) as models:
        contenders = {who: models.contender(who) for who in present}
        for batch in case.batches:
            for beam in case.beams:
                try:
                    rows += measure_search(case, contenders, batch=batch, beam=beam)
                except torch.OutOfMemoryError:
                    what = f"{batch} with a beam of {beam} does not fit on the device"
                    raise ConfigError(what, where="--batch", cure="lower it") from None
    return DecodeOutcome(rows, remarks)


def measure_search(
    case: DecodeCase, contenders: Mapping[str, Translate], *, batch: int, beam: int
) -> list[DecodeFigures]:
    """Measure one batch and beam. Translations are compared once, before the timing."""
    texts = {who: [list(text) for text in translate(beam, batch)] for who, translate in contenders.items()}
    calls = {who: Contender(partial(translate, beam, batch)) for who, translate in contenders.items()}
    rest = REST_SECONDS if case.device.type == "cpu" and len(calls) > 1 else 0.0
    seconds = time_in_turn(calls, rounds=case.repeats, device=case.device, rest=rest)
    shares = {who: equal_share(texts["weft"], text) if "weft" in texts else None for who, text in texts.items()}
    return [DecodeFigures(who, batch, beam, case.length, seconds[who], shares[who]) for who in contenders]


def equal_share(ours: Sequence[Sequence[int]], theirs: Sequence[Sequence[int]]) -> float:
    """The share of texts that are the same."""
    return sum(own == other for own, other in zip(ours, theirs, strict=True)) / len(ours)


def tabulate_decode(rows: Sequence[DecodeFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines; a ratio is weft's rate divided by a contender's."""
    own = {(row.batch, row.beam): row.rate for row in rows if row.who == "weft"}
    lines = []
    for row in rows:
        rate = own.get((row.batch, row.beam))
        ratio = NOTHING if rate is None or row.who == "weft" else f"{rate / row.rate:.2f}×"
        equal = NOTHING if row.equal is None or row.who == "weft" else f"{100 * row.equal:.0f}%"
        step = f"{1000 * row.seconds / row.length:.2f}"
        lines.append([row.who, str(row.batch), str(row.beam), f"{row.rate:,.0f}", ratio, step, equal])
    return ["contender", "batch", "beam", "tokens/s", "ratio", "ms/step", "equal"], lines
