"""Inputs by which a folder is compared with its run: made from the vocabulary, the same ones on every call."""

from __future__ import annotations

import random
from typing import Any, Final

import numpy as np

from weft.data import Steps
from weft.data.series import Series
from weft.run import Run
from weft.tasks.forecast_encoding import SeriesTask
from weft.text import SPECIALS, Tokenizer

SAMPLES: Final = 8
MAX_TOKENS: Final = 12
FIRST_DAY: Final = 18_262 * 86_400
"""2020-01-01."""


def sample_inputs(run: Run, count: int = SAMPLES) -> list[Any]:
    """Inputs of different lengths for `predict`."""
    draw = random.Random(0)
    make = _MAKERS.get(run.config.task, _text)
    return [make(run, draw, number) for number in range(count)]


def sample_pairs(run: Run, inputs: list[Any]) -> list[Any]:
    """Sample inputs of `score`: texts, or inputs with a text."""
    if not run.task.scores_texts or not run.task.writes:
        return []
    draw, task = random.Random(1), run.config.task
    if task == "lm":
        return inputs
    targets = [_words(run.task.codec.side("target"), draw, run) for _ in inputs]
    languages = getattr(run.task, "languages", None)
    more = (languages.names[0],) if languages else ()
    return [(source, target, *more) for source, target in zip(inputs, targets, strict=True)]


def _words(tokenizer: Tokenizer, draw: random.Random, run: Run) -> str:
    """A text of random entries."""
    longest = getattr(run.model, "longest", None) or 3 * MAX_TOKENS
    length = draw.randint(1, max(1, min(MAX_TOKENS, longest // 3)))
    ids = [draw.randrange(len(SPECIALS), len(tokenizer)) for _ in range(length)]
    return tokenizer.decode(ids).strip() or "a"


def _text(run: Run, draw: random.Random, number: int) -> Any:
    if "features" in run.task.codec.statistics:
        return _features(run, draw)
    tokenizer = run.task.codec.side("source")
    text = " ".join(_words(tokenizer, draw, run).split()) or "a"
    if getattr(run.config.data, "pair", None) is not None:
        return text, " ".join(_words(tokenizer, draw, run).split()) or "b"
    return text


def _masked(run: Run, draw: random.Random, number: int) -> str:
    words: list[str] = _text(run, draw, number).split()
    words[draw.randrange(len(words))] = "<mask>"
    return " ".join(words)


def _sentence(run: Run, draw: random.Random, number: int) -> Any:
    if "features" in run.task.codec.statistics:
        return _features(run, draw)
    tokenizer = run.task.codec.tokenizers["words"]
    ids = [draw.randrange(len(SPECIALS), len(tokenizer)) for _ in range(draw.randint(1, MAX_TOKENS))]
    words = [tokenizer.decode([index]).strip() or "a" for index in ids]
    return [*words, "Unseenword"] if number % 2 else words


def _features(run: Run, draw: random.Random) -> Any:
    found = run.task.codec.statistics["features"]
    generator = np.random.default_rng(draw.randrange(1 << 30))
    numbers = generator.standard_normal((draw.randint(1, MAX_TOKENS), len(found.mean)))
    return (numbers * np.array(found.scale) + np.array(found.mean)).tolist()


def _picture(run: Run, draw: random.Random, number: int) -> Any:
    if "features" in run.task.codec.statistics:
        return _features(run, draw)
    generator, size = np.random.default_rng(number), getattr(run.config.data, "size", 32)
    return generator.integers(0, 256, (size + number, size, 3), dtype=np.uint8)


def _word(run: Run, draw: random.Random, number: int) -> str:
    tokenizer: Tokenizer = run.task.codec.side("")
    return tokenizer.decode([draw.randrange(len(SPECIALS), len(tokenizer))])


def _series(run: Run, draw: random.Random, number: int) -> Series:
    """A series of the run, or an unknown one, with a gap, and with what is known of the future."""
    task = run.task
    assert isinstance(task, SeriesTask)
    data, generator = task.data, np.random.default_rng(number)
    length = task.history + draw.randint(0, 5) - (3 if number % 3 == 0 and task.history > 6 else 0)
    steps = generator.standard_normal((length + task.horizon, 1 + len(data.past) + len(data.known)))
    names = [*task.codec.labels, "unknown series"]
    name = names[number % len(names)]
    scaling = task.scalings.get(name) or next(iter(task.scalings.values()))
    steps[:, 0] = steps[:, 0] * scaling.scale + scaling.mean
    steps[length // 2, 0] = np.nan
    steps[length:, 0] = np.nan
    frequency = data.frequency or ("D" if data.calendar else "")
    categories = tuple((column, texts[number % len(texts)]) for column, texts in (data.categories or {}).items())
    static = tuple(generator.standard_normal(len(data.static_numbers)).tolist())
    start = FIRST_DAY if frequency else 0
    return Series(name, Steps.of(steps), start=start, frequency=frequency, static=static, categories=categories)


_MAKERS: Final = {"mask": _masked, "tag": _sentence, "caption": _picture, "embed": _word, "forecast": _series}
