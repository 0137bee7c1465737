"""The score of a folder on examples with answers, to see what 8 bits cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from weft.export.loss import MEASURES, spread
from weft.export.onnx.runner import Runner
from weft.metrics import spearman
from weft.run import Run


def measure(run: Run, folder: Path, examples: Sequence[Any] | None) -> tuple[str, float] | None:
    """The name and the value of a metric of the folder on some examples."""
    if examples is None:
        return None
    runner, task = Runner(folder, threads=0), run.config.task
    if task in BY_NUMBERS:
        return BY_NUMBERS[task](runner, examples)
    given, gold = zip(*MEASURES[task].questions(examples), strict=True)
    return MEASURES[task].score(runner.predict(list(given)), gold)


def _perplexity(runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    lines = [line for one in examples for line in one.text.splitlines() if line.strip()]
    found = runner.score(spread(lines))
    total = -sum(one["log_probability"] for one in found)
    return "perplexity", math.exp(total / max(1, sum(len(one["tokens"]) for one in found)))


def _embed(runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    """The rank correlation of cosines with the similarities that people gave."""
    words: Any = runner._answering
    pairs = [(words.vector_of(one.first), words.vector_of(one.second), one.score) for one in examples]
    known = [(first @ second, score) for first, second, score in pairs if first is not None and second is not None]
    return "spearman", spearman([score for _, score in known], [float(cosine) for cosine, _ in known]) if known else 0.0


def _forecast(runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    """The mean absolute error in units of the scale of each series."""
    forecasts: Any = runner._answering
    quantiles = forecasts._quantiles(examples)
    point = quantiles[:, :, forecasts.levels.index(0.5)]
    gold = np.stack([one.target[forecasts.history :] for one in examples])
    scale = np.array([forecasts._scaling(one)[1] for one in examples])[:, None]
    return "mae / scale", float(np.nanmean(np.abs(point - gold) / scale))


BY_NUMBERS: Final[Mapping[str, Callable[[Runner, Sequence[Any]], tuple[str, float]]]] = {
    "lm": _perplexity,
    "embed": _embed,
    "forecast": _forecast,
}
"""How a task is measured by other numbers than those of its answers."""
