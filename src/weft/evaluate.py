"""The only evaluation there is: sums over batches first, one division at the end. And the only way to predict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from textwrap import shorten
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from weft.data import Batches, Examples, Ragged
from weft.decoding import DecodeConfig, SearchListener
from weft.errors import ConfigError, DataError, counted
from weft.tasks import Batch, Loss, Prediction, Scores, Task, Tree
from weft.tasks.generation import generate
from weft.tasks.results import Numbers, ScoredText
from weft.tasks.streaming import stream_text
from weft.tasks.wording import Wording
from weft.training import Carry, Streams

BATCH_TOKENS: Final = 4096
"""Tokens in a batch where nothing is learned."""

GPU_BATCH_TOKENS: Final = 32768
"""Tokens in a batch whose texts are written on a GPU: reading them takes little memory, and with many sentences in the
queue no slot of the search stays empty."""

MAX_RANDOM_NUMBERS: Final = 1 << 24
"""Random numbers of all texts that are sampled together."""

MAX_PARTS, MIN_PART_TOKENS = 8, 4096
"""Parts in which a running text is read side by side, and the fewest tokens of a part: each begins with no state."""

SHOWN_CHARACTERS = 40
"""Characters of a text that stand for it in an error where it comes from no file."""


class Evaluation(NamedTuple):
    """The metrics, and the details that explain them."""

    metrics: dict[str, float]
    details: Tree


class Samples(NamedTuple):
    """Parts of some examples from which the time of their evaluation is estimated: one with the longest rows, a typical
    one, and how many times as much the whole takes as the typical one."""

    largest: Examples
    typical: Examples
    times: float


class EachEvaluation(NamedTuple):
    """The scores of all examples, and the sums (N, K) of each of them."""

    scores: Scores
    sums: Numbers


def evaluate(task: Task, model: nn.Module, examples: Examples, *, decode: DecodeConfig) -> Evaluation:
    """Score the model on examples with known answers."""
    scores, state = task.scores(), {}
    with torch.inference_mode():
        if examples.running:
            task.measure_running(scores, _running_losses(task, model, examples), examples)
            state = {"state": "carried through the text"}
        else:
            for rows, batch, records in _batches(task, model, examples):
                with _placed(examples, rows):
                    task.measure(model, batch, scores, records=records)
        if task.measures_answers:
            for rows, answers in _answers(task, model, examples, decode=decode):
                task.add_answers(scores, examples.pick(rows), answers)
    return Evaluation(scores.metrics(), scores.details() | state)


def evaluate_each(task: Task, model: nn.Module, examples: Examples, *, decode: DecodeConfig) -> EachEvaluation:
    """Score the model on each example by itself: one that is read alone does not depend on the others of its batch."""
    answers = predict(task, model, examples, decode=decode) if task.measures_answers else None
    device = next(model.parameters()).device
    model.eval()
    scores, sums = task.scores(), []
    with torch.inference_mode():
        for row in range(len(examples)):
            one, records = task.scores(), examples.pick([row])
            with _placed(examples, [row]):
                task.measure(model, task.collate(examples, [row]).to(device), one, records=records)
            if answers is not None:
                task.add_answers(one, records, [answers[row]])
            scores.merge(one)
            sums.append(np.asarray(one.sums(), dtype=np.float64))
    return EachEvaluation(scores, np.stack(sums))


def samples(examples: Examples) -> Samples:
    """Parts that are evaluated as all examples are: two batches, or of running text the beginning."""
    if examples.running:
        tokens = np.cumsum(examples.lengths)
        rows = np.arange(min(len(tokens), 1 + int(np.searchsorted(tokens, MAX_PARTS * MIN_PART_TOKENS))))
        beginning = _choose(examples, rows)
        return Samples(beginning, beginning, float(tokens[-1] / tokens[rows[-1]]))
    batches = Batches(examples.lengths, batch_tokens=BATCH_TOKENS).in_order()
    return Samples(_choose(examples, batches[0]), _choose(examples, batches[len(batches) // 2]), len(batches))


def _choose(examples: Examples, rows: NDArray[np.int64]) -> Examples:
    """These rows as examples of their own."""
    columns = {name: Ragged.from_lists(column[int(row)] for row in rows) for name, column in examples.columns.items()}
    records = None if examples.records is None else examples.pick(rows)
    return replace(examples, columns=columns, lengths=examples.lengths[rows], records=records)


def calibrate(task: Task, model: nn.Module, examples: Examples) -> Tree:
    """Calibrate the model on these examples; return what the report says of it, nothing for a task without."""
    with torch.inference_mode():
        return task.calibrate(model, (batch for _, batch, _ in _batches(task, model, examples)))


def _running_losses(task: Task, model: nn.Module, examples: Examples) -> Iterator[tuple[Loss, Batch]]:
    """The loss of each batch of a running text, with the state carried as truncated backpropagation carries it."""
    device = next(model.parameters()).device
    model.eval()
    count = min(MAX_PARTS, max(1, int(examples.lengths.sum()) // MIN_PART_TOKENS))
    steps = BATCH_TOKENS // MAX_PARTS
    streams = Streams(examples, batch_tokens=count * steps, truncate=steps, whole=True)
    carry = Carry(task, model, truncate=steps)
    for number in streams.epoch(0):
        batch = streams.collate(number).to(device)
        yield carry.loss(model, batch), batch


def predict(
    task: Task,
    model: nn.Module,
    examples: Examples,
    *,
    decode: DecodeConfig,
    wordings: Sequence[Wording] | None = None,
    attention: bool = False,
    listener: SearchListener | None = None,
) -> list[Prediction]:
    """An answer for each example, in the order of the examples; written texts obey the wording of each. A listener is
    called at each step of the search for the only example."""
    found: dict[int, Prediction] = {}
    every = _answers(task, model, examples, decode=decode, wordings=wordings, attention=attention, listener=listener)
    with torch.inference_mode():
        for rows, answers in every:
            found.update(zip(rows, answers, strict=True))
    return [found[row] for row in range(len(examples))]


def _answers(
    task: Task,
    model: nn.Module,
    examples: Examples,
    *,
    decode: DecodeConfig,
    wordings: Sequence[Wording] | None = None,
    attention: bool = False,
    listener: SearchListener | None = None,
) -> Iterator[tuple[Sequence[int], Sequence[Prediction]]]:
    """The rows of each batch with their answers."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    tokens = GPU_BATCH_TOKENS if on_gpu and task.writes else BATCH_TOKENS
    for rows, batch, records in _batches(task, model, examples, tokens=tokens, most=_max_texts(decode)):
        answers: Sequence[Prediction]
        with _placed(examples, rows):
            if wordings is None and not attention and listener is None:
                answers = task.predict(model, batch, records=records, decode=decode)
            else:
                own = wordings and [wordings[row] for row in rows]
                answers = generate(
                    task,
                    model,
                    batch,
                    records=records,
                    decode=decode,
                    wordings=own,
                    attention=attention,
                    listener=listener,
                )
        if len(answers) != len(rows):
            what = f"returns {counted(len(answers), 'answer')} for {counted(len(rows), 'record')}"
            cure = "return one for each, in the order of the records"
            raise ConfigError(what, where=f"{type(task).__name__}.predict", cure=cure)
        yield rows, answers


def _max_texts(decode: DecodeConfig) -> int | None:
    """The most inputs of a batch: the random numbers of a sampled text are drawn before its first step."""
    return max(1, MAX_RANDOM_NUMBERS // (decode.n_best * decode.max_length)) if decode.sample else None


def stream(
    task: Task, model: nn.Module, examples: Examples, *, decode: DecodeConfig, wordings: Sequence[Wording] | None
) -> Iterator[str]:
    """The text for the only example, in pieces as soon as they are certain."""
    for rows, batch, records in _batches(task, model, examples):
        wording = wordings[0] if wordings else None
        with _placed(examples, rows):
            yield from stream_text(task, model, batch, records=records, decode=decode, wording=wording)


def score(task: Task, model: nn.Module, examples: Examples, *, candidates: int = 0) -> list[ScoredText]:
    """The probabilities that the model gives to the text of each example, in the order of the examples, with the
    likeliest `candidates` at each place."""
    answers: dict[int, ScoredText] = {}
    with torch.inference_mode():
        for rows, batch, records in _batches(task, model, examples):
            with _placed(examples, rows):
                found = task.score(model, batch, records=records, candidates=candidates)
                answers.update(zip(rows, found, strict=True))
    return [answers[row] for row in range(len(examples))]


def _batches(
    task: Task, model: nn.Module, examples: Examples, *, tokens: int = BATCH_TOKENS, most: int | None = None
) -> Iterator[tuple[Sequence[int], Batch, Sequence[Any]]]:
    """Batches of so many tokens, and of `most` rows where that is less: rows, batch, records."""
    device = next(model.parameters()).device
    model.eval()
    tokens = max(tokens, getattr(model, "evaluation_tokens", 0))
    for every in Batches(examples.lengths, batch_tokens=tokens).in_order():
        for first in range(0, len(every), most or len(every)):
            rows = every[first : first + (most or len(every))]
            yield rows.tolist(), task.collate(examples, rows).to(device), examples.pick(rows)


@contextmanager
def _placed(examples: Examples, rows: Sequence[int]) -> Iterator[None]:
    """Add the place, or the first words, of the longest row to an error about text that a model cannot read."""
    try:
        yield
    except DataError as error:
        longest = max(rows, key=lambda row: int(np.max(examples.lengths[row])))
        records = examples.pick([longest])
        if error.where or not records:
            raise
        where = records[0].place or f'"{shorten(records[0].key, SHOWN_CHARACTERS, placeholder="…")}"'
        raise DataError(error.what, where=where, cure=error.cure) from None
