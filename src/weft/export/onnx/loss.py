"""The score of a folder on examples with answers, to see what 8 bits cost."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import numpy as np
import sacrebleu

from weft.data import BadLines, Corpus, Similarity
from weft.errors import DataError, WeftError
from weft.export.onnx.runner import Runner
from weft.metrics import spearman
from weft.run import Run
from weft.run.inputs import find_source, read_records
from weft.tasks.forecast_encoding import SeriesTask

MAX_EXAMPLES: Final = 500


def read_examples(run: Run, data: str | Path | None) -> list[Any] | None:
    """Examples from all parts of a file, by default of the validation data of the run; None where there is none."""
    task, source = run.task, data if data is not None else getattr(run.config.data, "valid", None)
    cut = isinstance(task, SeriesTask) and data is None
    if not (cut or isinstance(source, str | Path | list)):
        return None
    try:
        if isinstance(run.task, SeriesTask) and data is None and not run.task.data.files("valid"):
            return _set_aside(run)
        records = read_records(task, find_source(source, "data"), run.config.data, BadLines())
        if task.name == "embed":
            records = _similarities(records)
        return spread(list(task.gather(records, run.config.data))) or None
    except WeftError:
        if data is not None:
            raise
        return None


def _similarities(records: Iterable[Any]) -> Iterator[Similarity]:
    """Return the records of similarities, which need only the vectors and not the weights trained beside them."""
    found = [record for record in records if isinstance(record, Similarity)]
    if not found:
        raise DataError(
            "word vectors in 8 bits are measured on pairs of words with a similarity", cure="give such a file"
        )
    yield from found


def _set_aside(run: Run) -> list[Any] | None:
    """The windows of the end of the training file that were set aside for validation."""
    data = run.config.data
    records = Corpus.of(list(read_records(run.task, find_source(data.train, "data"), data, BadLines())))
    division = run.task.divide(records, data)
    held = None if division is None else division.aside.get("valid")
    return None if held is None else spread(list(run.task.gather(held, data)))


def spread(examples: Sequence[Any]) -> list[Any]:
    """At most MAX_EXAMPLES of them, at equal distances: files are often sorted."""
    every = max(1.0, len(examples) / MAX_EXAMPLES)
    return [examples[int(number * every)] for number in range(min(len(examples), MAX_EXAMPLES))]


def measure(run: Run, folder: Path, examples: Sequence[Any] | None) -> tuple[str, float] | None:
    """The name and the value of a metric of the folder on some examples."""
    return None if examples is None else MEASURES[run.config.task](run, Runner(folder, threads=0), examples)


def _inputs(examples: Sequence[Any]) -> list[Any]:
    return [one.steps or (one.text if one.second is None else (one.text, one.second)) for one in examples]


def _classify(run: Run, runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    answers = runner.predict(_inputs(examples))
    if getattr(run.task, "many_labels", False):
        right = [set(answer["labels"]) == set(one.labels) for answer, one in zip(answers, examples, strict=True)]
        return "exact", float(np.mean(right))
    right = [answer["label"] == one.label for answer, one in zip(answers, examples, strict=True)]
    return "accuracy", float(np.mean(right))


def _regress(run: Run, runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    numbers = np.array([answer["number"] for answer in runner.predict(_inputs(examples))])
    return "rmse", float(np.sqrt(np.mean(np.square(numbers - np.array([one.number for one in examples])))))


def _tag(run: Run, runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    answers = runner.predict([one.steps or list(one.words) for one in examples])
    pairs = [
        pair
        for answer, one in zip(answers, examples, strict=True)
        for pair in zip(answer["tags"], one.tags, strict=True)
    ]
    return "accuracy", float(np.mean([tag == gold for tag, gold in pairs]))


def _perplexity(run: Run, runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    lines = [line for one in examples for line in one.text.splitlines() if line.strip()]
    found = runner.score(spread(lines))
    total = -sum(one["log_probability"] for one in found)
    return "perplexity", math.exp(total / max(1, sum(len(one["tokens"]) for one in found)))


def _mask(run: Run, runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    """The share of words that are found again when each text lacks one."""
    texts, words = [], []
    for number, one in enumerate(examples):
        parts = one.text.split()
        if parts:
            place = number % len(parts)
            words.append(parts[place])
            texts.append(" ".join([*parts[:place], "<mask>", *parts[place + 1 :]]))
    answers = runner.predict(texts)
    return "accuracy", float(
        np.mean([one["gaps"][0][0]["token"] == word for one, word in zip(answers, words, strict=True)])
    )


def _translate(run: Run, runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    return "bleu", _bleu(runner.predict(list(examples)), examples)


def _caption(run: Run, runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    return "bleu", _bleu(runner.predict([one.picture or one.steps for one in examples]), examples)


def _bleu(answers: Sequence[Mapping[str, Any]], examples: Sequence[Any]) -> float:
    """BLEU in percent, with all references of each example."""
    streams = list(zip_longest(*(one.accepted for one in examples)))
    return float(sacrebleu.corpus_bleu([answer["text"] for answer in answers], streams).score)


def _embed(run: Run, runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    """The rank correlation of cosines with the similarities that people gave."""
    words: Any = runner._answering
    pairs = [(words.vector_of(one.first), words.vector_of(one.second), one.score) for one in examples]
    known = [(first @ second, score) for first, second, score in pairs if first is not None and second is not None]
    return "spearman", spearman([score for _, score in known], [float(cosine) for cosine, _ in known]) if known else 0.0


def _forecast(run: Run, runner: Runner, examples: Sequence[Any]) -> tuple[str, float]:
    """The mean absolute error in units of the scale of each series."""
    forecasts: Any = runner._answering
    quantiles = forecasts._quantiles(examples)
    point = quantiles[:, :, forecasts.levels.index(0.5)]
    gold = np.stack([one.target[forecasts.history :] for one in examples])
    scale = np.array([forecasts._scaling(one)[1] for one in examples])[:, None]
    return "mae / scale", float(np.nanmean(np.abs(point - gold) / scale))


MEASURES: Final[Mapping[str, Callable[[Run, Runner, Sequence[Any]], tuple[str, float]]]] = {
    "classify": _classify,
    "regress": _regress,
    "tag": _tag,
    "lm": _perplexity,
    "mask": _mask,
    "translate": _translate,
    "caption": _caption,
    "embed": _embed,
    "forecast": _forecast,
}
