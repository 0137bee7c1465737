"""The table of several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from weft.compare.bootstrap import Interval, paired_intervals
from weft.compare.tally import tally
from weft.config import Config, difference
from weft.config.tree import flatten
from weft.errors import ConfigError, RunError, did_you_mean
from weft.nn import CellClass
from weft.run import load, load_config
from weft.run.hub.address import local_folder
from weft.run.report import read_report

MIN_SHARE_DIFFERENCE: Final = 0.001
"""Shares of unknown tokens that differ by this much are worth a note."""


@dataclass(frozen=True)
class Compared:
    """One run: its scores, the vocabulary and the share of unknown tokens behind its perplexity, its size and time, its
    value of every setting in which the runs differ, and its differences to the first run where they were measured."""

    name: str
    metrics: dict[str, float]
    vocabulary: int | None
    unknown_share: float | None
    parameters: int | None
    seconds: float | None
    tokens_per_second: float | None
    settings: dict[str, Any]
    differences: dict[str, Interval] = field(default_factory=dict)

    def tree(self) -> dict[str, Any]:
        """As plain values."""
        differences = {name: interval._asdict() for name, interval in self.differences.items()}
        return {**vars(self), "differences": differences}


@dataclass(frozen=True)
class Comparison:
    """All runs in the given order, the data that they were measured on, notes for the reader, and the names of the
    scores that mean something for the data."""

    measured_on: str
    runs: list[Compared]
    notes: list[str]
    shown: list[str]


def compare(
    runs: Sequence[str | Path],
    *,
    data: str | list[str] | None = None,
    metric: str | None = None,
    device: str = "auto",
    cells: Mapping[str, CellClass] | None = None,
) -> Comparison:
    """Compare scores of the reports, or with `data` measure them now, with intervals of the differences.

    `metric` keeps one score.
    """
    names = [str(run) for run in runs]
    if len(set(names)) < len(names):
        raise ConfigError("a run is named twice", where=" ".join(names))
    folders = [local_folder(run, cells=cells) for run in runs]
    configs = [load_config(folder, cells=cells) for folder in folders]
    if len({config.task for config in configs}) > 1:
        tasks = ", ".join(f"{name}: {config.task}" for name, config in zip(names, configs, strict=True))
        raise RunError("runs of different tasks have no score in common", where=tasks)
    reports = [read_report(folder) for folder in folders]
    differences: list[dict[str, Interval]] = [{} for _ in folders]
    if data is None:
        part = "test" if all("test" in report for report in reports) else "valid"
        scores = [_scores(name, report, part) for name, report in zip(names, reports, strict=True)]
        details = [report.get("details", {}).get(part, {}) for report in reports]
        shown = [about.get("shown") for about in details]
    else:
        part = data if isinstance(data, str) else " ".join(data)
        tallies = [tally(load(folder, device=device, cells=cells), data) for folder in folders]
        scores, details = [found.metrics() for found in tallies], [found.details for found in tallies]
        shown = [found.shown for found in tallies]
        differences[1:] = paired_intervals(tallies)
    notes = [*_notes(configs, data), *_vocabulary_notes(details, scores[0])]
    if metric is not None:
        scores = [{metric: _pick(found, metric)} for found in scores]
        differences = [{metric: found[metric]} if found else {} for found in differences]
        shown = [[metric] for _ in folders]
    settings = differing_settings(configs)
    compared = [
        Compared(
            name,
            metrics,
            about.get("vocabulary"),
            about.get("unknown_share"),
            report.get("parameters"),
            report.get("seconds"),
            report.get("tokens_per_second"),
            {path: values[number] for path, values in settings.items()},
            differences[number],
        )
        for number, (name, metrics, report, about) in enumerate(zip(names, scores, reports, details, strict=True))
    ]
    columns = dict.fromkeys(name for own, found in zip(shown, scores, strict=True) for name in own or found)
    return Comparison(part, compared, notes, list(columns))


def differing_settings(configs: Sequence[Config]) -> dict[str, list[Any]]:
    """Every setting that is not the same in all runs, with its value in each; None where a run has no such setting."""
    paths = dict.fromkeys(path for other in configs[1:] for path, *_ in difference(configs[0], other))
    trees = [dict(flatten(config.tree())) for config in configs]
    return {path: [tree.get(path) for tree in trees] for path in paths}


def _notes(configs: Sequence[Config], data: object) -> list[str]:
    notes = []
    if data is None:
        notes.append("intervals of the differences need examples: --data FILE measures all runs on it")
        tested = [_measured(config) for config in configs]
        if any(files != tested[0] for files in tested):
            notes.append("the runs were measured on different files, so their scores do not compare; use --data FILE")
    return notes


def _measured(config: Config) -> list[Any]:
    """The data that a run was scored on: a file, or a part of the training file."""
    data = config.data
    part = "test" if data.test is not None else "valid"
    return [data.files(part)] if data.files(part) else [data.train, getattr(data, part)]


def _vocabulary_notes(details: Sequence[Mapping[str, Any]], scores: Mapping[str, float]) -> list[str]:
    """Reasons why perplexities do not compare: other tokens, another vocabulary, another share of unknown tokens."""
    known = [about for about in details if "perplexity_unit" in about]
    notes = []
    if len({(about["perplexity_unit"], about.get("vocabulary")) for about in known}) > 1:
        fits = "bits_per_character" if "bits_per_character" in scores else "the scores of the texts"
        notes.append(f"the vocabularies differ, so loss and perplexity do not compare; compare {fits}")
    shares = [about["unknown_share"] for about in known if "unknown_share" in about]
    if shares and max(shares) - min(shares) >= MIN_SHARE_DIFFERENCE:
        shown = ", ".join(f"{100 * share:.2f}%" for share in shares)
        notes.append(
            f"the shares of unknown tokens differ ({shown}); an unknown token stands for any word and is easy to "
            "predict, so more of them flatter loss, perplexity and bits_per_character"
        )
    return notes


def _scores(name: str, report: Mapping[str, Any], part: str) -> dict[str, float]:
    if part not in report:
        raise RunError("has no scores in its report", where=name, cure="its training did not end; --data FILE measures")
    return dict(report[part])


def _pick(scores: Mapping[str, float], metric: str) -> float:
    if metric not in scores:
        raise ConfigError(f'"{metric}" is not measured here', where="--metric", cure=did_you_mean(metric, scores))
    return scores[metric]
