"""Measures the rungs of a ladder on the same examples: the test data, or without it the validation data."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from weft.catalog import TASKS
from weft.compare import Tally, tally_records
from weft.config import Config
from weft.data import Record
from weft.errors import ConfigError, did_you_mean
from weft.evaluate import evaluate, predict
from weft.ladder.baseline import guess
from weft.ladder.rungs import Rung
from weft.ladder.simple_forecasts import forecast_simply
from weft.ladder.summary import ScoredRung, Summary, build_summary
from weft.nn import CellClass
from weft.run import Run, load
from weft.run.folder.files import CONFIG, LABELS, MANIFEST, WEIGHTS
from weft.run.prepare import read_divided
from weft.tasks import Tree, encode
from weft.tasks.forecast_data import ForecastData

TIMED_RECORDS: Final = 256
"""Examples whose prediction is timed, after a few that are not."""

WARMUP_RECORDS: Final = 8


class Data(NamedTuple):
    """The records that rungs are measured on, the name of their part, those that were trained on, and the settings."""

    name: str
    records: list[Record]
    train: Iterable[Record]
    config: Config


def read_data(base: Tree, *, skip_bad_lines: bool = False, cells: Mapping[str, CellClass] | None = None) -> Data:
    """Read the test data, or the validation data, or the part of the training data that every rung sets aside."""
    config, train, parts = read_divided(base, skip_bad_lines=skip_bad_lines, cells=cells)
    name = "test" if "test" in parts else "valid"
    return Data(name, list(parts[name]), train, config)


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
    data, found = read_data(base, skip_bad_lines=skip_bad_lines, cells=cells), list[ScoredRung]()
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
    return build_summary(found, base["task"], name, data.name, notes, left_out)


def _measure_guesses(name: str, data: Data) -> ScoredRung:
    if isinstance(data.config.data, ForecastData):
        tally, parameters, seconds, took = forecast_simply(name, data.train, data.records, data.config.data)
    else:
        tally, parameters, seconds, took = guess(data.train, data.records)
    return ScoredRung(name, tally, parameters, seconds, 0, len(tally.numbers) / max(took, 1e-9), trained=False)


def _measure_run(name: str, run: Run, data: Data) -> ScoredRung:
    report = run.report
    size = sum(
        (run.folder / file).stat().st_size
        for file in (CONFIG, LABELS, MANIFEST, WEIGHTS)
        if (run.folder / file).exists()
    )
    size += sum(file.stat().st_size for file in run.folder.glob("tokenizer*.json"))
    tally = tally_records(run, data.records)
    measured = list(run.task.gather(data.records, run.config.data))
    return ScoredRung(name, tally, report["parameters"], report["seconds"], size, _time(run, measured))


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
