"""`weft bench loop --teacher-forcing P`: updates with scheduled sampling, beside those that read the truth alone.

truth     each token that the decoder reads is the true one
graphs    it is the true one with probability P, and the steps of the mixture run as CUDA graphs
python    the same, the steps in a Python loop

An update is forward, backward and the step of the optimizer, on a batch of random words. On a CPU there are no graphs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch
from torch import nn

from weft.bench.loop import RATE
from weft.bench.machine import choose_place
from weft.bench.table import NOTHING
from weft.bench.timing import Contender, time_in_turn
from weft.models import LANGUAGE_MODELS, TranslatorConfig, build_language_model
from weft.models.forcing_graph import python_loop, refusal
from weft.run.report import count_parameters
from weft.text import SPECIALS
from weft.training import build_optimizer, precise
from weft.training.device import synchronize

MODELS: Final = ("lm", "first", "after", "attention")
"""A language model, and translators by the context of their decoder."""

SIZES: Final[dict[str, dict[str, Any]]] = {
    "cpu": {"rows": 32, "length": 32, "words": 4000, "width": 256, "layers": 1},
    "cuda": {"rows": 256, "length": 64, "words": 8000, "width": 1024, "layers": 2},
}

CALLS_PER_SAMPLE: Final = {"cpu": 1, "cuda": 5}


@dataclass(frozen=True, kw_only=True)
class SamplingCase:
    """The device, the batch (rows, tokens of each row and of its source), the vocabulary, and units of all layers."""

    place: str
    truth: float
    rows: int
    length: int
    words: int
    width: int
    layers: int
    cell: str = "lstm"
    dropout: float = 0.1

    @property
    def device(self) -> torch.device:
        return torch.device(self.place)

    def tree(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    def describe(self) -> str:
        """The line above the table: the settings that all its rows share."""
        precision = "bf16 by autocast" if self.device.type == "cuda" else "float32"
        return (
            f"{self.layers} layers of {self.width} units of {self.cell}, {self.words:,} words, "
            f"{self.rows}×{self.length} tokens, {precision}, fused AdamW; a token that is read is the true one with "
            f"probability {self.truth:g}"
        )


def plan_sampling(device: str, truth: float) -> SamplingCase:
    """Build the case of sizes that suit the device."""
    place = choose_place(device)
    return SamplingCase(place=str(place), truth=truth, **SIZES[place.type])


@dataclass(frozen=True)
class SamplingFigures:
    """One model: the median seconds of an update by contender, the seconds of the first one with graphs, and why there
    are none if so."""

    model: str
    parameters: int
    tokens: int
    seconds: dict[str, float]
    first: float | None
    reason: str = ""

    def rate(self, who: str) -> float:
        """Target tokens per second."""
        return self.tokens / self.seconds[who]

    def tree(self) -> dict[str, Any]:
        """The JSON form; times in milliseconds."""
        times = {f"{who}_ms": 1000 * seconds for who, seconds in self.seconds.items()}
        rates = {f"{who}_tokens_per_second": self.rate(who) for who in self.seconds}
        rest = {"first_seconds": self.first, "reason": self.reason}
        return {"model": self.model, "parameters": self.parameters} | times | rates | rest


def measure_sampling(kind: str, case: SamplingCase, *, repeats: int) -> SamplingFigures:
    """Measure one kind of model, all contenders in turn."""
    device = case.device
    model = build(kind, case).to(device).train()
    optimizer = build_optimizer(model, kind="adamw", rate=RATE, weight_decay=0.0)
    tokens, source = (
        torch.randint(len(SPECIALS), case.words, (case.rows, case.length), device=device) for _ in range(2)
    )
    lengths = torch.full((case.rows,), case.length, device=device)
    given = (tokens,) if kind == "lm" else (source, lengths, tokens)

    def update(truth: float, steps: Callable[[], AbstractContextManager[None]]) -> Callable[[], None]:
        def run() -> None:
            optimizer.zero_grad(set_to_none=True)
            with precise("auto", device), steps():
                hidden = model(*given, truth=truth)[:, :-1].flatten(0, 1)
                loss = model.output.loss(hidden, tokens[:, 1:].flatten()) / tokens.numel()
            loss.backward()
            optimizer.step()

        return run

    contenders = {"truth": update(1.0, nullcontext), "python": update(case.truth, python_loop)}
    for run in contenders.values():
        run()
    first = None
    if device.type == "cuda":
        contenders["graphs"] = update(case.truth, nullcontext)
        synchronize(device)
        began = time.perf_counter()
        contenders["graphs"]()
        synchronize(device)
        first = time.perf_counter() - began
    timed = {who: Contender(run) for who, run in contenders.items()}
    seconds = time_in_turn(timed, rounds=repeats, device=device, calls=CALLS_PER_SAMPLE[device.type])
    reason = refusal(model.decoder)
    return SamplingFigures(kind, count_parameters(model), tokens.numel(), seconds, first, reason)


def build(kind: str, case: SamplingCase) -> Any:
    """A language model or a translator of the case's sizes."""
    settings: dict[str, Any] = {"kind": "rnn", "cell": case.cell, "embedding": case.width, "hidden": case.width}
    settings |= {"layers": case.layers, "dropout": case.dropout}
    if kind == "lm":
        config: Any = LANGUAGE_MODELS["rnn"].model_validate(settings)
        return build_language_model(config, case.words)
    pair = {"encoder": settings, "decoder": settings | {"context": kind}}
    model: nn.Module = TranslatorConfig.model_validate(pair).build(case.words, case.words, shared=False)
    return model


def tabulate_sampling(rows: Sequence[SamplingFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines; a share is the speed of a contender divided by that with the truth alone."""
    headings = ["model", "parameters", "truth tokens/s", "graphs tokens/s", "share", "python tokens/s", "share"]
    lines = []
    for row in rows:
        line = [row.model, f"{row.parameters:,}", f"{row.rate('truth'):,.0f}"]
        for who in ("graphs", "python"):
            timed = who in row.seconds
            line.append(f"{row.rate(who):,.0f}" if timed else NOTHING)
            line.append(f"{100 * row.seconds['truth'] / row.seconds[who]:.0f}%" if timed else NOTHING)
        lines.append(line)
    return headings, lines


def remarks_sampling(rows: Sequence[SamplingFigures]) -> list[str]:
    """How long the first update with graphs took, which records them; why there are none."""
    found = []
    for row in rows:
        if row.first is not None:
            found.append(f"{row.model}: the first update with graphs took {row.first:.2f} s")
        if row.reason:
            found.append(f"{row.model} has no graphs: {row.reason}")
    return found
