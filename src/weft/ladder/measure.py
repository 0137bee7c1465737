"""Measures the rungs of a ladder on the same examples: scores with bootstrap intervals, size, time and speed.

The examples are the test data, or without it the validation data. The same examples are drawn for every rung, so that
differences to the best are paired (`compare/bootstrap.py`). The cheapest rung is the one that trained for the fewest
seconds among those whose difference to the best may be chance: its 95% interval contains zero.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from weft.catalog import TASKS
from weft.compare import Tally, draw_scores, interval, tally_records
from weft.data import BadLines, Record
from weft.errors import ConfigError, did_you_mean
from weft.evaluate import evaluate, predict
from weft.ladder.baseline import guess
from weft.ladder.rungs import Rung, lower_is_better
from weft.nn import CellClass
from weft.run import Run, load
from weft.run.folder.files import CONFIG, LABELS, MANIFEST, WEIGHTS
from weft.run.prepare import survey_config
from weft.tasks import Tree, encode

TIMED_RECORDS: Final = 256
"""Examples whose prediction is timed, after a few that are not."""

WARMUP_RECORDS: Final = 8


@dataclass(frozen=True)
class MeasuredRung:
    """One rung: its score with the bounds of 95% of the draws, parameters, seconds of training, bytes on the disk, and
    examples predicted per second; for a language model, characters scored per second."""

    name: str
    score: float
    low: float
    high: float
    parameters: int
    seconds: float
    bytes: int
    speed: float

    def tree(self) -> Tree:
        """As plain values; what is infinite is None."""
        return {
            name: None if isinstance(value, float) and not math.isfinite(value) else value
            for name, value in vars(self).items()
        }


@dataclass(frozen=True)
class Summary:
    """All rungs that were measured, the name of the best, and of the cheapest that is not significantly worse."""

    task: str
    metric: str
    measured_on: str
    rungs: list[MeasuredRung]
    best: str
    cheapest: str
    failed: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def speed_unit(self) -> str:
        return "characters/s" if self.task == "lm" else "texts/s"

    def tree(self) -> Tree:
        """As plain values, for ladder.json."""
        return {
            "task": self.task,
            "metric": self.metric,
            "lower_is_better": lower_is_better(self.task, self.metric),
            "measured_on": self.measured_on,
            "speed_unit": self.speed_unit,
            "rungs": [rung.tree() for rung in self.rungs],
            "best": self.best,
            "cheapest": self.cheapest,
            "failed": self.failed,
            "notes": self.notes,
        }


class Data(NamedTuple):
    """The records that rungs are measured on, their name, and those that were trained on."""

    name: str
    records: list[Record]
    train: Iterable[Record]


def read_data(base: Tree, *, skip_bad_lines: bool = False, cells: Mapping[str, CellClass] | None = None) -> Data:
    """Read the test data, or the validation data, or the part of the training data that every rung sets aside."""
    config, _, rest, _, held = survey_config(base, skip_bad_lines=skip_bad_lines, cells=cells)
    for part in ("test", "valid"):
        if path := getattr(config.data, part):
            return Data(part, list(TASKS[config.task].read(path, config.data, BadLines(skip=skip_bad_lines))), rest)
    assert held is not None
    return Data("valid", list(held), rest)


class _Found(NamedTuple):
    """The sums of a rung's examples and what it cost."""

    name: str
    tally: Tally
    parameters: int
    seconds: float
    bytes: int
    speed: float


def summarise(
    rungs: Sequence[Rung],
    folders: Mapping[str, Path],
    base: Tree,
    *,
    metric: str | None = None,
    failed: Mapping[str, str] | None = None,
    skip_bad_lines: bool = False,
    cells: Mapping[str, CellClass] | None = None,
) -> Summary:
    """Measure all rungs that were trained, and those that are no models."""
    data, found = read_data(base, skip_bad_lines=skip_bad_lines, cells=cells), list[_Found]()
    metrics, left_out = list[str](), dict(failed or {})
    for rung in rungs:
        if rung.settings is None and not rung.error:
            try:
                found.append(_measure_guesses(rung.name, data))
            except ConfigError as error:  # such as for texts with several labels
                left_out[rung.name] = error.what
        elif rung.name in folders:
            run = load(folders[rung.name], cells=cells)
            metrics.append(run.config.train.metric or run.task.metric)
            found.append(_measure_run(rung.name, run, data))
    name, notes = _choose_metric(base["task"], metric, metrics, [one.tally for one in found])
    return _summary(found, base["task"], name, data.name, notes, left_out)


def _measure_guesses(name: str, data: Data) -> _Found:
    tally, parameters, seconds, took = guess(data.train, data.records)
    return _Found(name, tally, parameters, seconds, 0, len(data.records) / max(took, 1e-9))


def _measure_run(name: str, run: Run, data: Data) -> _Found:
    report = run.report
    size = sum(
        (run.folder / file).stat().st_size
        for file in (CONFIG, LABELS, MANIFEST, WEIGHTS)
        if (run.folder / file).exists()
    )
    size += sum(file.stat().st_size for file in run.folder.glob("tokenizer*.json"))
    tally = tally_records(run, data.records)
    return _Found(name, tally, report["parameters"], report["seconds"], size, _time(run, data.records))


def _time(run: Run, records: Sequence[Record]) -> float:
    """Examples that the run predicts in a second; of a language model, characters that it scores."""
    some = list(records[:TIMED_RECORDS])
    took = 0.0
    for part in (some[:WARMUP_RECORDS], some):
        examples = encode(run.task, part, run.task.limit(training=False) if run.config.task == "lm" else None)
        began = time.perf_counter()
        if run.config.task == "lm":
            evaluate(run.task, run.model, examples, decode=run.config.decode)
        else:
            predict(run.task, run.model, examples, decode=run.config.decode)
        took = time.perf_counter() - began
    units = sum(len(record.key) for record in some) if run.config.task == "lm" else len(some)
    return units / max(took, 1e-9)


def _choose_metric(
    task: str, asked: str | None, metrics: Sequence[str], tallies: Sequence[Tally]
) -> tuple[str, list[str]]:
    """The metric of the table: the one asked for, or that of the rungs if all have the same and it compares."""
    known = [name for name in tallies[-1].metrics() if all(name in tally.metrics() for tally in tallies)]
    if asked is not None:
        if asked not in known:
            raise ConfigError(
                "is not measured by all rungs", where=f"--metric {asked}", cure=did_you_mean(asked, known)
            )
        return asked, []
    name = metrics[0] if len(set(metrics)) == 1 and metrics[0] in known else TASKS[task].own_metric(known)
    vocabularies = {(tally.details.get("perplexity_unit"), tally.details.get("vocabulary")) for tally in tallies}
    if name in ("loss", "perplexity") and len(vocabularies) > 1 and "bits_per_character" in known:
        return "bits_per_character", ["the rungs have different vocabularies, so bits per character are compared"]
    return name, []


def _summary(
    found: Sequence[_Found], task: str, metric: str, part: str, notes: list[str], failed: dict[str, str]
) -> Summary:
    sign = -1.0 if lower_is_better(task, metric) else 1.0
    scores = [one.tally.metrics()[metric] for one in found]
    finite = [number for number, score in enumerate(scores) if math.isfinite(score)]
    if not finite:
        raise ConfigError(f"no rung has a finite {metric}", where="weft ladder", cure="choose another with --metric")
    best = max(finite, key=lambda number: (sign * scores[number], -found[number].seconds))
    drawn = draw_scores([found[number].tally for number in finite])
    bounds: dict[int, tuple[float, float]] = {}
    equal: list[int] = []
    best_draws = [one.get(metric, 0.0) for one in drawn[finite.index(best)]]
    for number, draws in zip(finite, drawn, strict=True):
        values = [one.get(metric, 0.0) for one in draws]
        _, low, high = interval(scores[number], values)
        bounds[number] = low, high
        gap = interval(
            scores[number] - scores[best], [mine - theirs for mine, theirs in zip(values, best_draws, strict=True)]
        )
        if number == best or not gap.sure or sign * gap.difference > 0:
            equal.append(number)
    cheapest = min(equal, key=lambda number: found[number].seconds)
    rungs = [
        MeasuredRung(
            one.name,
            scores[number],
            *bounds.get(number, (math.nan, math.nan)),
            one.parameters,
            one.seconds,
            one.bytes,
            one.speed,
        )
        for number, one in enumerate(found)
    ]
    return Summary(task, metric, part, rungs, found[best].name, found[cheapest].name, failed, notes)
