"""What each example adds to the scores of a run: numbers that add up, so that any choice of examples can be scored.

N rows, K numbers of a row. A score is a function of the sum over rows, as in `weft.evaluate`, and of all rows together
it gives the same.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from weft.data import BadLines, Examples
from weft.evaluate import predict
from weft.metrics import LossTally, count_edits, spans
from weft.metrics.scores import f1, ratio
from weft.run import Run
from weft.tasks import encode
from weft.tasks.generation import Generating
from weft.tasks.shift import Expecting, count_unknown
from weft.tasks.translate import TranslationScores

if TYPE_CHECKING:
    from sacrebleu.metrics.base import Metric

Numbers = NDArray[np.float64]
Scorer = Callable[[Numbers], dict[str, float]]


@dataclass(frozen=True)
class Tally:
    """Numbers (N, K), the number of the record that each row comes from (N,), and the scores of a sum (K,). `details`
    explain a perplexity, as those of an evaluation do; `shown` are the names of the scores that mean something for the
    data, without which all do."""

    numbers: Numbers
    records: NDArray[np.int64]
    score: Scorer
    details: dict[str, Any] = field(default_factory=dict)
    shown: tuple[str, ...] = ()

    def metrics(self) -> dict[str, float]:
        return self.score(self.numbers.sum(0))

    def by_record(self) -> Tally:
        """A row for each record: what was cut into pieces is one example again."""
        starts = np.flatnonzero(np.diff(self.records, prepend=-1))
        return replace(self, numbers=np.add.reduceat(self.numbers, starts), records=np.arange(len(starts)))


@dataclass(frozen=True)
class Part:
    """Some of the numbers (N, k), and the scores that follow from them; those of all parts that are `shown`."""

    numbers: Numbers
    score: Scorer
    shown: tuple[str, ...] = ()


def tally(run: Run, path: str | list[str]) -> Tally:
    """Let the run answer every example of a file, decoded as its configuration says."""
    task = run.task
    examples = encode(task, task.read(path, run.config.data, BadLines(skip=False)), task.limit(training=False))
    losses, sums = row_losses(run, examples)
    parts = PARTS[run.config.task](run, examples, losses)
    details = {}
    if isinstance(task, Generating):
        tokenizer = task.codec.side("target")
        details = sums.details(unit=tokenizer.unit, vocabulary=len(tokenizer))
    ends = np.cumsum([part.numbers.shape[1] for part in parts])[:-1]

    def score(total: Numbers) -> dict[str, float]:
        scores: dict[str, float] = {}
        for part, numbers in zip(parts, np.split(total, ends), strict=True):
            scores |= part.score(numbers)
        return scores

    numbers = np.concatenate([part.numbers for part in parts], axis=1)
    return Tally(numbers, record_numbers(examples), score, details, sum((part.shown for part in parts), ()))


def record_numbers(examples: Examples) -> NDArray[np.int64]:
    """Which record a row comes from (N,): where records are cut, the first piece has the characters of them all."""
    if examples.records is not None:
        return np.arange(len(examples))
    characters = examples.columns["characters"].join(range(len(examples)))
    return np.asarray(np.cumsum(np.asarray(characters) > 0) - 1, dtype=np.int64)


def row_losses(run: Run, examples: Examples) -> tuple[Numbers, LossTally]:
    """Summed loss and number of predictions of each row (N, 2), and of all rows: a task gives one sum for a batch, so
    rows go alone."""
    device = next(run.model.parameters()).device
    run.model.eval()
    numbers, sums = np.zeros((len(examples), 2)), LossTally()
    with torch.inference_mode():
        for row in range(len(examples)):
            batch = run.task.collate(examples, [row]).to(device)
            loss = run.task.loss(run.model, batch)
            numbers[row] = float(loss.total), loss.count
            sums.add(float(loss.total), loss.count, count_unknown(batch) if isinstance(batch, Expecting) else 0)
    return numbers, sums


def answered(run: Run, examples: Examples) -> list[tuple[Any, Any]]:
    """Each record with the run's answer to it."""
    answers = predict(run.task, run.model, examples, decode=run.config.decode)
    return list(zip(examples.records or (), answers, strict=True))


def loss_part(losses: Numbers, *, perplexity: bool = False) -> Part:
    def score(total: Numbers) -> dict[str, float]:
        loss = ratio(float(total[0]), float(total[1]))
        return {"loss": loss} | ({"perplexity": float(np.exp(loss))} if perplexity else {})

    return Part(losses, score)


def class_part(rows: Sequence[tuple[Sequence[str], Sequence[str]]], labels: Sequence[str]) -> Part:
    """Accuracy and macro F1 from gold and predicted labels of each row; for each label correct, gold, predicted, and
    last the gold labels that the model does not know."""
    number = {label: place for place, label in enumerate(labels)}
    size = len(labels)
    numbers = np.zeros((len(rows), 3 * size + 1))
    for row, (gold, predicted) in zip(numbers, rows, strict=True):
        for is_, said in zip(gold, predicted, strict=True):
            row[size + number[is_] if is_ in number else -1] += 1
            row[2 * size + number[said]] += 1
            row[number[said]] += is_ == said

    def score(total: Numbers) -> dict[str, float]:
        correct, gold, predicted = total[:-1].reshape(3, size)
        there = gold + predicted > 0
        means = 2 * correct[there] / (gold + predicted)[there]
        return {
            "accuracy": ratio(float(correct.sum()), float(gold.sum() + total[-1])),
            "f1": ratio(float(means.sum()), len(means)),
        }

    return Part(numbers, score)


def span_part(rows: Sequence[tuple[Sequence[str], Sequence[str]]]) -> Part:
    """Micro F1 of spans: correct, gold and predicted ones of each row."""
    found = [(set(spans(gold)), set(spans(predicted))) for gold, predicted in rows]
    numbers = np.array([(len(gold & said), len(gold), len(said)) for gold, said in found], dtype=np.float64)
    return Part(numbers, lambda total: {"span_f1": f1(*map(float, total))})


def text_part(name: str, metric: Metric, hypotheses: Sequence[str], references: Sequence[str]) -> Part:
    """BLEU or chrF from sacreBLEU's statistics of each sentence, which its own significance tests resample too."""
    numbers = np.array(metric._extract_corpus_statistics(hypotheses, [references]), dtype=np.float64)

    def score(total: Numbers) -> dict[str, float]:
        return {name: float(metric._compute_score_from_stats(total.astype(np.int64).tolist()).score)}

    return Part(numbers, score)


def ratio_part(name: str, rows: ArrayLike) -> Part:
    """A score that is one sum over another, from the two numbers of each row."""
    return Part(np.array(rows, dtype=np.float64), lambda total: {name: ratio(float(total[0]), float(total[1]))})


def classify_parts(run: Run, examples: Examples, losses: Numbers) -> list[Part]:
    rows = [((record.label,), (answer.label,)) for record, answer in answered(run, examples)]
    return [class_part(rows, run.task.codec.labels), loss_part(losses)]


def tag_parts(run: Run, examples: Examples, losses: Numbers) -> list[Part]:
    rows = [(record.tags or (), answer.tags) for record, answer in answered(run, examples)]
    marked = [span_part(rows)] if run.task.metric == "span_f1" else []
    return [*marked, class_part(rows, run.task.codec.labels), loss_part(losses)]


def translate_parts(run: Run, examples: Examples, losses: Numbers) -> list[Part]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    texts = [(answer.text, pair.target or "") for pair, answer in answered(run, examples)]
    hypotheses, references = [text for text, _ in texts], [reference for _, reference in texts]
    scores = run.task.scores()
    assert isinstance(scores, TranslationScores)
    for hypothesis, reference in texts:
        scores.texts.add(hypothesis, reference)
    return [
        text_part("bleu", BLEU(force=True), hypotheses, references),
        text_part("chrf", CHRF(), hypotheses, references),
        ratio_part("exact", [(text == reference, 1) for text, reference in texts]),
        *(ratio_part(name, [count_edits(name, *pair) for pair in texts]) for name in ("wer", "cer")),
        replace(loss_part(losses, perplexity=True), shown=scores.shown),
    ]


def language_parts(run: Run, examples: Examples, losses: Numbers) -> list[Part]:
    rows = range(len(examples))
    characters = np.array([examples.columns["characters"].join([row]).sum() for row in rows], dtype=np.float64)
    bits = np.stack([losses[:, 0] / math.log(2), characters], axis=1)
    return [loss_part(losses, perplexity=True), ratio_part("bits_per_character", bits)]


PARTS: dict[str, Callable[[Run, Examples, Numbers], list[Part]]] = {
    "classify": classify_parts,
    "lm": language_parts,
    "tag": tag_parts,
    "translate": translate_parts,
}
"""What the scores of each task are made of, in the order of its report."""
