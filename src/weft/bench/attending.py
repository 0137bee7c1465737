"""Measures a translator whose recurrence attends (context = "attention"), beside attention after it ("after").

after     all states first, then all queries at once
inside    attention in every step, the loop compiled
eager     the same in a Python loop over time

A pass is forward and backward over a batch, with gradients of all weights, without an optimizer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from weft.bench.recurrence.case import DTYPES, Case, Size
from weft.bench.timing import Contender, time_in_turn
from weft.errors import ConfigError, did_you_mean
from weft.models import RecurrentDecoderConfig, RecurrentSourceConfig, Translator, TranslatorConfig
from weft.models.decoders import InsideDecoder
from weft.nn import SCORES, CellClass, choose_cell

SIZES: Final = (Size(32, 20, 256), Size(64, 40, 512))
"""The default sizes; source and target have the same length."""

WORDS: Final = 8000
"""Tokens of each vocabulary."""

WHO: Final = ("after", "inside", "eager")


@dataclass(frozen=True)
class AttendingFigures:
    """Seconds of a pass by contender; how the loop ran."""

    case: Case
    score: str
    seconds: dict[str, float]
    plan: str

    def rate(self, who: str) -> float:
        """Target tokens per second."""
        return self.case.size.batch * self.case.size.time / self.seconds[who]

    def tree(self) -> dict[str, Any]:
        """The JSON form; times in milliseconds."""
        row: dict[str, Any] = {"cell": self.case.cell, "score": self.score, "size": list(self.case.size)}
        row |= {f"{who}_ms": 1000 * self.seconds[who] for who in WHO}
        return row | {f"{who}_tokens_per_second": self.rate(who) for who in WHO} | {"plan": self.plan}


def check_scores(scores: Sequence[str]) -> None:
    """Raise on a score that there is not."""
    for score in scores:
        if score not in SCORES:
            raise ConfigError(f'"{score}" is not a score', where="--score", cure=did_you_mean(score, SCORES))


def measure_attending(case: Case, score: str, *, repeats: int, cells: Mapping[str, CellClass]) -> AttendingFigures:
    """Measure one case, all contenders in turn."""
    after, inside = (build(case, score, context, cells) for context in ("after", "attention"))
    source = torch.randint(4, WORDS, case.size[:2], device=case.device)
    target, lengths = source.flip(1), torch.full((case.size.batch,), case.size.time)
    decoder = inside.decoder
    assert isinstance(decoder, InsideDecoder)

    def looped(tokens: Tensor, memory: Any) -> Tensor:
        hidden = decoder.step_through(decoder.dropout(decoder.embedding(tokens)), decoder.bridge(memory.final), memory)
        return decoder.dropout(hidden)  # type: ignore[no-any-return]

    def passes(model: Translator, read: Callable[[Tensor, Any], Tensor]) -> Callable[[], object]:
        def run() -> None:
            model.zero_grad()
            with torch.autocast(case.device.type, DTYPES[case.dtype], enabled=case.dtype != "float32"):
                logits = model.output(read(target, model.encode(source, lengths)))
            cross_entropy(logits.float().flatten(0, 1), target.flatten()).backward()  # type: ignore[no-untyped-call]

        return run

    contenders = {
        "after": Contender(passes(after, after.decoder)),
        "inside": Contender(passes(inside, inside.decoder)),
        "eager": Contender(passes(inside, looped)),
    }
    seconds = time_in_turn(contenders, rounds=repeats, device=case.device)
    return AttendingFigures(case, score, seconds, decoder.explain().splitlines()[0])


def build(case: Case, score: str, context: Any, cells: Mapping[str, CellClass]) -> Translator:
    """A translator of the default settings, of the case's cell and hidden size."""
    hidden = case.size.hidden
    config = TranslatorConfig(
        encoder=RecurrentSourceConfig(embedding=hidden, hidden=hidden),
        decoder=RecurrentDecoderConfig(
            embedding=hidden, hidden=hidden, context=context, attention=score, cell=choose_cell(case.cell, cells)
        ),
    )
    return config.build(WORDS, WORDS, shared=False).to(case.device).train()


def tabulate_attending(rows: Sequence[AttendingFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines; a ratio is the speed of the compiled loop divided by another one's."""
    headings = ["cell", "score", "B,T,H", "after tokens/s", "inside tokens/s", "ratio", "eager tokens/s", "ratio"]
    lines = []
    for row in rows:
        rates = [f"{row.rate(who):,.0f}" for who in WHO]
        ratios = [f"{row.seconds[who] / row.seconds['inside']:.2f}×" for who in ("after", "eager")]
        ours = [row.case.cell, row.score, str(row.case.size), rates[0], rates[1], ratios[0]]
        lines.append([*ours, rates[2], ratios[1]])
    return headings, lines


def remarks_attending(rows: Sequence[AttendingFigures]) -> list[str]:
    """How the loops ran, each once."""
    return list(dict.fromkeys(f"{row.case.cell}: {row.plan}" for row in rows))
