"""What 8 bits cost: the score of an exported model on examples with answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import sacrebleu

from weft.data import BadLines, ManyLabelled, Record, Similarity
from weft.errors import ConfigError, DataError, WeftError
from weft.export.held_out import read_held_out
from weft.run import Run
from weft.run.inputs import find_source, read_records

MAX_EXAMPLES: Final = 500


class ScoreLoss(NamedTuple):
    """A metric of the run, and of the model in 8 bits, on the same examples."""

    metric: str
    before: float
    after: float
    examples: int

    def describe(self) -> str:
        return f"{self.metric} {self.before:.4g} before and {self.after:.4g} in int8, on {self.examples:,} examples"


Answer = Mapping[str, Any]
"""An answer as `weft predict --json` prints it."""

Question = tuple[Any, Any]
"""An input, and what its answer is compared with."""


class Measure(NamedTuple):
    """A metric of answers: its questions from examples, and its name and value from the answers and what is right."""

    questions: Callable[[Sequence[Any]], list[Question]]
    score: Callable[[Sequence[Answer], Sequence[Any]], tuple[str, float]]


class Unmeasured(DataError):
    """No data is at hand to measure the score of a run on."""


def read_examples(run: Run, data: str | Path | None) -> list[Any]:
    """Examples from all parts of a file, by default of the validation data of the run; raises an Unmeasured where that
    is not at hand."""
    try:
        found = spread(list(run.task.gather(_records(run, data), run.config.data)))
    except WeftError as error:
        if data is not None:
            raise
        raise Unmeasured(": ".join(part for part in (error.where, error.what) if part)) from None
    if not found:
        raise DataError("has no examples", where=str(data)) if data is not None else Unmeasured("it has no examples")
    return found


def _records(run: Run, data: str | Path | None) -> Iterable[Record]:
    """The records of a file, of data.valid, or of what was set aside for validation."""
    source = data if data is not None else run.config.data.files("valid")
    if source is None:
        records = iter(read_held_out(run))
    else:
        records = read_records(run.task, find_source(source, "data"), run.config.data, BadLines())
    return _similarities(records) if run.task.name == "embed" else records


def _similarities(records: Iterable[Any]) -> Iterator[Similarity]:
    """Return the records of similarities, which need only the vectors and not the weights trained beside them."""
    found = [record for record in records if isinstance(record, Similarity)]
    if not found:
        raise DataError(
            "word vectors in 8 bits are measured on pairs of words with a similarity", cure="give such a file"
        )
    yield from found


def spread(examples: Sequence[Any]) -> list[Any]:
    """At most MAX_EXAMPLES of them, at equal distances: files are often sorted."""
    every = max(1.0, len(examples) / MAX_EXAMPLES)
    return [examples[int(number * every)] for number in range(min(len(examples), MAX_EXAMPLES))]


def check_measured(data: str | Path | None, quantization: str | None) -> None:
    """Raise for examples without a loss to measure on them."""
    if data is not None and quantization != "int8":
        raise ConfigError("is what int8 is measured on", where=f"--data {data}", cure="add --quantization int8")


def _texts(examples: Sequence[Any]) -> list[Any]:
    return [one.steps or (one.text if one.second is None else (one.text, one.second)) for one in examples]


def _labelled(examples: Sequence[Any]) -> list[Question]:
    gold = [set(one.labels or ()) if isinstance(one, ManyLabelled) else one.label for one in examples]
    return list(zip(_texts(examples), gold, strict=True))


def _label_score(answers: Sequence[Answer], gold: Sequence[Any]) -> tuple[str, float]:
    many = isinstance(gold[0], set)
    found = [set(answer["labels"]) if many else answer["label"] for answer in answers]
    return "exact" if many else "accuracy", float(
        np.mean([one == right for one, right in zip(found, gold, strict=True)])
    )


def _measured(examples: Sequence[Any]) -> list[Question]:
    return list(zip(_texts(examples), [one.number for one in examples], strict=True))


def _number_score(answers: Sequence[Answer], gold: Sequence[Any]) -> tuple[str, float]:
    numbers = np.array([answer["number"] for answer in answers])
    return "rmse", float(np.sqrt(np.mean(np.square(numbers - np.array(gold)))))


def _tagged(examples: Sequence[Any]) -> list[Question]:
    return [(one.steps or list(one.words), one.tags) for one in examples]


def _tag_score(answers: Sequence[Answer], gold: Sequence[Any]) -> tuple[str, float]:
    pairs = [pair for one, tags in zip(answers, gold, strict=True) for pair in zip(one["tags"], tags, strict=True)]
    return "accuracy", float(np.mean([tag == right for tag, right in pairs]))


def _masked(examples: Sequence[Any]) -> list[Question]:
    """Texts that each lack one word, and the word."""
    found = []
    for number, one in enumerate(examples):
        parts = one.text.split()
        if parts:
            place = number % len(parts)
            found.append((" ".join([*parts[:place], "<mask>", *parts[place + 1 :]]), parts[place]))
    return found


def _gap_score(answers: Sequence[Answer], gold: Sequence[Any]) -> tuple[str, float]:
    """The share of words that are found again."""
    return "accuracy", float(
        np.mean([one["gaps"][0][0]["token"] == word for one, word in zip(answers, gold, strict=True)])
    )


def _translated(examples: Sequence[Any]) -> list[Question]:
    return [(one, one.accepted) for one in examples]


def _captioned(examples: Sequence[Any]) -> list[Question]:
    return [(one.picture or one.steps, one.accepted) for one in examples]


def _bleu(answers: Sequence[Answer], gold: Sequence[Any]) -> tuple[str, float]:
    """BLEU in percent, with all references of each example."""
    streams = list(zip_longest(*gold))
    return "bleu", float(sacrebleu.corpus_bleu([answer["text"] for answer in answers], streams).score)


MEASURES: Final[Mapping[str, Measure]] = {
    "classify": Measure(_labelled, _label_score),
    "regress": Measure(_measured, _number_score),
    "tag": Measure(_tagged, _tag_score),
    "mask": Measure(_masked, _gap_score),
    "translate": Measure(_translated, _bleu),
    "caption": Measure(_captioned, _bleu),
}
"""How a task is measured by its answers alone."""
