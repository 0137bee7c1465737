"""Inputs by which an exported program is compared with its run: lines of the program, and the same for the run."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from weft.data import Statistics, Steps
from weft.data.series import Series
from weft.export.c.plan_reading import features_of
from weft.run import Run
from weft.tasks.forecast_data import ForecastData
from weft.tasks.forecast_encoding import SeriesTask
from weft.tasks.forecast_scaling import COVARIATES, STATIC
from weft.text import SPECIALS, Tokenizer

LINES: Final = 24
MAX_WORDS: Final = 20
START: Final = 1_700_000_000 // 86_400 * 86_400
"""A midnight, the first time stamp of a series."""


class Sample(NamedTuple):
    """A line of the program, and the input of the run."""

    line: str
    given: Any


def samples_of(run: Run, folder: Path, *, count: int = LINES) -> list[Sample]:
    """Inputs of different lengths, the same ones on every call; pictures are written into the folder."""
    draw = random.Random(0)
    if run.config.task == "caption" and features_of(run) is None:
        return [_picture(run, folder, draw, number) for number in range(count)]
    make: Callable[[Run, random.Random, int], Sample] = SAMPLES.get(run.config.task, _line)
    if (features := features_of(run)) is not None:
        return [_steps(features, draw, 1 + number % MAX_WORDS) for number in range(count)]
    return [make(run, draw, 1 + number % MAX_WORDS) for number in range(count)]


def _line(run: Run, draw: random.Random, length: int) -> Sample:
    tokenizers = run.task.codec.tokenizers
    tokenizer = tokenizers.get("source") or tokenizers.get("words") or tokenizers[""]
    pair = getattr(run.task.data, "pair", None) is not None
    texts = [text_of(tokenizer, draw, length) for _ in range(1 + pair)]
    line = "\t".join(text or "a" for text in texts)
    return Sample(line, line)


def text_of(tokenizer: Tokenizer, draw: random.Random, count: int) -> str:
    """A text of that many tokens, or fewer; a token may be any byte, and no line has that of NUL."""
    ids = [draw.randrange(len(SPECIALS), max(len(SPECIALS) + 1, len(tokenizer))) for _ in range(count)]
    text = tokenizer.decode([index for index in ids if index < len(tokenizer)])
    return " ".join(re.sub(r"[\s\x00\ufffd]+|<mask>|\[MASK\]", " ", text).split())


def _gaps(run: Run, draw: random.Random, length: int) -> Sample:
    """A text with a gap, or two; a few have none."""
    words = [*text_of(run.task.codec.tokenizers[""], draw, length).split(), "<mask>"]
    draw.shuffle(words)
    line = " ".join(words if length % 7 else words[:-1])
    line = f"{line}, [MASK]" if length % 3 == 0 else line
    return Sample(line, line)


def _words(run: Run, draw: random.Random, length: int) -> Sample:
    """A word, or a sum of words, some of which are unknown."""
    tokenizer = run.task.codec.tokenizers[""]
    words = [text_of(tokenizer, draw, 1) or "a" for _ in range(1 + length % 4)]
    line = " ".join(f"{'+-'[draw.randrange(2)]} {word}" if number else word for number, word in enumerate(words))
    line = f"{line}q" if length % 5 == 0 else line
    return Sample(line, line)


def _steps(features: Statistics, draw: random.Random, length: int) -> Sample:
    """Feature vectors as far from their mean as those of the training data."""
    rows = [
        [draw.gauss(mean, scale) for mean, scale in zip(features.mean, features.scale, strict=True)]
        for _ in range(length)
    ]
    return Sample(json.dumps(rows), rows)


def _picture(run: Run, folder: Path, draw: random.Random, number: int) -> Sample:
    task: Any = run.task
    side, channels = task.data.size, task.channels
    content = bytes(draw.randrange(256) for _ in range(side * side * channels))
    path = folder / f"picture{number}.{'pgm' if channels == 1 else 'ppm'}"
    path.write_bytes(f"P{5 if channels == 1 else 6}\n{side} {side}\n255\n".encode() + content)
    shape = (side, side, channels) if channels == 3 else (side, side)
    return Sample(str(path), np.frombuffer(content, np.uint8).reshape(shape))


def _series(run: Run, draw: random.Random, length: int) -> Sample:
    """A series, known or not, that begins before the window or inside it, with gaps."""
    task = run.task
    assert isinstance(task, SeriesTask)
    data, names = task.data, [*task.scalings, "unknown"]
    name = draw.choice(names[: 1 + len(names) * (length % 3 > 0)])
    about = task.scalings.get(name) or next(iter(task.scalings.values()))
    count = max(2, task.history * length // 8)
    target = [draw.gauss(about.mean, about.scale) if draw.random() < 0.9 else None for _ in range(count)]
    target[-1] = about.mean
    covariates, static = (task.codec.statistics.get(one) for one in (COVARIATES, STATIC))
    wide = [
        [draw.gauss(*one) for one in zip(covariates.mean, covariates.scale, strict=True)] if covariates else []
        for _ in range(count + task.horizon)
    ]
    numbers = [draw.gauss(*one) for one in zip(static.mean, static.scale, strict=True)] if static else []
    categories = {column: draw.choice([*texts, "other"]) for column, texts in (data.categories or {}).items()}
    every = zip([*target, *[None] * task.horizon], wide, strict=True)
    rows = [[np.nan if y is None else y, *more] for y, more in every]
    series = Series(
        name,
        Steps.of(np.array(rows, dtype=np.float64)),
        start=START,
        frequency=data.frequency or "",
        static=tuple(numbers),
        categories=tuple(categories.items()),
    )
    return Sample(json.dumps(series_line(series, count, data)), series)


def series_line(series: Series, count: int, data: ForecastData) -> dict[str, Any]:
    """A series of so many known steps, and the steps to forecast after them, as the program reads it."""
    past, own = 1 + len(data.past), dict(series.categories)
    rows = [[None if np.isnan(number) else number for number in row] for row in series.steps.array.tolist()]
    return {
        "series": series.name,
        "target": [row[0] for row in rows[:count]],
        "past": [row[1:past] for row in rows[:count]],
        "known": [row[past:] for row in rows],
        "static": list(series.static),
        "categories": [own.get(column, "") for column in data.categories or {}],
        "start": series.start,
    }


SAMPLES: Final[dict[str, Callable[[Run, random.Random, int], Sample]]] = {
    "mask": _gaps,
    "embed": _words,
    "forecast": _series,
}
"""How the inputs of a task are made that does not read plain lines of text."""
