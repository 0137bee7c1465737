"""Measures whole updates of a translator by several contenders, in turn, in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import torch

from weft.bench.table import NOTHING
from weft.bench.training.case import TrainingCase
from weft.bench.training.sentences import Sentences
from weft.bench.training.trainers import Trainer, build_trainer
from weft.errors import ConfigError
from weft.training import precise
from weft.training.device import synchronize

MAX_SIZE_DIFFERENCE: Final = 0.02
"""The share by which two models may differ in parameters without a remark."""


class Sample(NamedTuple):
    """Some updates in a row; grown is the peak of the GPU's memory in bytes, above its use before them."""

    tokens: int
    seconds: float
    grown: int


@dataclass(frozen=True)
class Entry:
    """A contender, the seconds of its first update, and its bytes on the GPU between updates."""

    trainer: Trainer
    first: float
    resident: int
    samples: list[Sample] = field(default_factory=list)


@dataclass(frozen=True)
class TrainingFigures:
    """One contender: target tokens per second, seconds and target tokens of an update.

    padding is the share of padding in its batches, peak is bytes on a GPU, first the seconds of the first update.
    """

    who: str
    parameters: int
    rate: float
    seconds: float
    tokens: float
    padding: float
    peak: int | None
    first: float

    def tree(self) -> dict[str, Any]:
        """The JSON form; the time of an update in milliseconds."""
        return {
            "contender": self.who,
            "parameters": self.parameters,
            "tokens_per_second": self.rate,
            "update_ms": 1000 * self.seconds,
            "tokens_per_update": self.tokens,
            "padding": self.padding,
            "peak_bytes": self.peak,
            "first_seconds": self.first,
        }


class TrainingOutcome(NamedTuple):
    """The figures, and remarks on them for the reader."""

    rows: list[TrainingFigures]
    remarks: list[str]


def measure_training(case: TrainingCase, sentences: Sentences) -> TrainingOutcome:
    """Measure all contenders of a case on its sentences."""
    remarks, entries = list(sentences.notes), dict[str, Entry]()
    _wake(case.device)
    try:
        for who in case.contenders:
            try:
                entries[who] = _enter(who, case, sentences)
                remarks += [f"{who}: {note}" for note in entries[who].trainer.notes]
            except RuntimeError as error:  # compiling needs a C compiler, which not every machine has
                if who != "huggingface-compiled" or isinstance(error, torch.OutOfMemoryError):
                    raise
                remarks.append(f"without {who}: {str(error).strip().splitlines()[0]}")
        for number in range(case.repeats):
            # Every second round runs backwards, so that no contender always follows the same other one.
            for entry in list(entries.values())[:: 1 if number % 2 == 0 else -1]:
                entry.samples.append(_sample(entry.trainer, case))
    except torch.OutOfMemoryError:
        raise ConfigError(f"{case.rows} does not fit on the device", where="--rows", cure="lower it") from None
    finally:
        for entry in entries.values():
            entry.trainer.close()
    rows = [_figures(who, entry, case) for who, entry in entries.items()]
    return TrainingOutcome(rows, remarks + _differences(rows))


def tabulate_training(rows: Sequence[TrainingFigures]) -> tuple[list[str], list[list[str]]]:
    """Return headings and lines; a ratio is weft's rate divided by a contender's; memory only where measured."""
    headings = ["contender", "parameters", "tokens/s", "ratio", "ms/update", "tokens/update", "padding"]
    with_memory = any(row.peak is not None for row in rows)
    own = next((row.rate for row in rows if row.who == "weft"), None)
    lines = []
    for row in rows:
        ratio = NOTHING if own is None or row.who == "weft" else f"{own / row.rate:.2f}×"
        line = [row.who, f"{row.parameters:,}", f"{row.rate:,.0f}", ratio, f"{1000 * row.seconds:.1f}"]
        line += [f"{row.tokens:,.0f}", f"{100 * row.padding:.1f}%"]
        line += [NOTHING if row.peak is None else f"{row.peak / 2**20:,.0f}"] if with_memory else []
        lines.append([*line, f"{row.first:.2f}"])
    return [*headings, *(["peak MiB"] if with_memory else []), "first update s"], lines


def _wake(device: torch.device) -> None:
    """Load torch's libraries now, so that the first contender's time and memory do not include them."""
    x, layer = torch.zeros(64, 64, device=device), torch.nn.Linear(64, 64, device=device)
    with precise("auto", device):
        loss = layer(x).sum()
    loss.backward()
    synchronize(device)


def _enter(who: str, case: TrainingCase, sentences: Sentences) -> Entry:
    """Build a contender and run its warm-up: the first update, which may compile, and a sample."""
    before = _allocated(case.device)
    trainer = build_trainer(who, case, sentences)
    try:
        trainer.ready(1)
        began = time.perf_counter()
        trainer.update()
        synchronize(case.device)
        first = time.perf_counter() - began
        _sample(trainer, case)
    except BaseException:
        trainer.close()
        raise
    return Entry(trainer, first, _allocated(case.device) - before)


def _sample(trainer: Trainer, case: TrainingCase) -> Sample:
    on_gpu = case.device.type == "cuda"
    trainer.ready(case.updates)
    synchronize(case.device)
    before = _allocated(case.device)
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(case.device)
    began = time.perf_counter()
    tokens = sum(trainer.update() for _ in range(case.updates))
    synchronize(case.device)
    seconds = time.perf_counter() - began
    return Sample(tokens, seconds, torch.cuda.max_memory_allocated(case.device) - before if on_gpu else 0)


def _allocated(device: torch.device) -> int:
    return torch.cuda.memory_allocated(device) if device.type == "cuda" else 0


def _figures(who: str, entry: Entry, case: TrainingCase) -> TrainingFigures:
    samples = entry.samples
    peak = entry.resident + max(sample.grown for sample in samples)
    return TrainingFigures(
        who=who,
        parameters=entry.trainer.parameters,
        rate=statistics.median(sample.tokens / sample.seconds for sample in samples),
        seconds=statistics.median(sample.seconds for sample in samples) / case.updates,
        tokens=statistics.mean(sample.tokens for sample in samples) / case.updates,
        padding=entry.trainer.padding.share,
        peak=peak if case.device.type == "cuda" else None,
        first=entry.first,
    )


def _differences(rows: Sequence[TrainingFigures]) -> list[str]:
    """A remark if the models differ in size."""
    sizes = {row.who: row.parameters for row in rows}
    if not sizes or max(sizes.values()) <= (1 + MAX_SIZE_DIFFERENCE) * min(sizes.values()):
        return []
    return [f"the models differ in size: {', '.join(f'{who} {size:,}' for who, size in sizes.items())} parameters"]
