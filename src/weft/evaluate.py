"""The only evaluation there is: sums over batches first, one division at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from textwrap import shorten
from typing import Any, Final, NamedTuple

import numpy as np
import torch
from torch import nn

from weft.data import Batches, Examples
from weft.decoding import DecodeConfig
from weft.errors import DataError
from weft.metrics import fit_temperature
from weft.tasks import Batch, Prediction, Task, Tree
from weft.tasks.generation import Comparing, Generating, Scored, Scoring, generate
from weft.tasks.labels import Calibrating
from weft.tasks.lm import LanguageScores
from weft.tasks.streaming import stream_text
from weft.tasks.task import UNSEEN
from weft.tasks.wording import Wording
from weft.training import Carry, Streams

BATCH_TOKENS: Final = 4096
"""Tokens in a batch where nothing is learned."""

MANY_TOKENS: Final = 32768
"""The same where a GPU writes texts: what it reads needs little room, and every sentence that ends should have a
successor."""

DRAWN: Final = 1 << 24
"""Random numbers of all texts that are drawn together."""

STREAMS, SHORTEST = 8, 4096
"""Parts in which a running text is read side by side, and the fewest tokens of a part: each begins from nothing."""

NAMED = 40
"""Characters by which a text is told that comes from no file."""


class Evaluation(NamedTuple):
    """The numbers, and what explains them."""

    metrics: dict[str, float]
    details: Tree


def evaluate(task: Task, model: nn.Module, examples: Examples, *, decode: DecodeConfig) -> Evaluation:
    """Score the model on examples with known answers."""
    scores = task.scores()
    with torch.inference_mode():
        if examples.running:
            assert isinstance(scores, LanguageScores)
            return _read_on(task, model, examples, scores)
        for rows, batch, records in _batches(task, model, examples):
            with _placed(examples, rows):
                task.measure(model, batch, scores, records=records)
        if isinstance(task, Comparing):
            for rows, batch, records in _batches(
                task, model, examples, tokens=_tokens(task, model), most=_texts(decode)
            ):
                with _placed(examples, rows):
                    task.compare(scores, records, task.predict(model, batch, records=records, decode=decode))
    return Evaluation(scores.metrics(), scores.details())


def calibrate(task: Task, model: nn.Module, examples: Examples) -> Tree:
    """Make the probabilities of a model mean what they say on these examples; the temperature, and how many they were.

    Nothing is done for a task that has no such number.
    """
    if not isinstance(task, Calibrating):
        return {}
    with torch.inference_mode():
        found = [task.labelled_logits(model, batch) for _, batch, _ in _batches(task, model, examples)]
        logits, labels = (torch.cat(parts).cpu() for parts in zip(*found, strict=True))
        seen = labels != UNSEEN
        temperature = fit_temperature(logits[seen], labels[seen])
    if temperature != 1.0:
        task.set_temperature(model, temperature)
    return {"temperature": temperature, "examples": int(seen.sum())}


def _read_on(task: Task, model: nn.Module, examples: Examples, scores: LanguageScores) -> Evaluation:
    """Running text with the state carried, as truncated backpropagation reads it."""
    device = next(model.parameters()).device
    model.eval()
    count = min(STREAMS, max(1, int(examples.lengths.sum()) // SHORTEST))
    steps = BATCH_TOKENS // STREAMS
    streams = Streams(examples, batch_tokens=count * steps, truncate=steps, whole=True)
    carry = Carry(task, model, truncate=steps)
    for number in streams.epoch(0):
        batch = streams.collate(number).to(device)
        scores.add(carry.loss(model, batch), batch, 0)
    scores.characters += int(examples.columns["characters"].flat(0, len(examples)).sum())
    return Evaluation(scores.metrics(), scores.details() | {"state": "carried through the text"})


def predict(
    task: Task,
    model: nn.Module,
    examples: Examples,
    *,
    decode: DecodeConfig,
    wordings: Sequence[Wording] | None = None,
    attention: bool = False,
) -> list[Prediction]:
    """An answer for each example, in the order of the examples; written ones in the wording that each asks for."""
    answers: dict[int, Prediction] = {}
    with torch.inference_mode():
        for rows, batch, records in _batches(task, model, examples, tokens=_tokens(task, model), most=_texts(decode)):
            with _placed(examples, rows):
                found: Sequence[Prediction]
                if wordings is None and not attention:
                    found = task.predict(model, batch, records=records, decode=decode)
                else:
                    assert isinstance(task, Generating)
                    own = wordings and [wordings[row] for row in rows]
                    found = generate(
                        task, model, batch, records=records, decode=decode, wordings=own, attention=attention
                    )
            answers.update(zip(rows, found, strict=True))
    return [answers[row] for row in range(len(examples))]


def stream(
    task: Task, model: nn.Module, examples: Examples, *, decode: DecodeConfig, wordings: Sequence[Wording] | None
) -> Iterator[str]:
    """The answer for the only example, in pieces as they come."""
    assert isinstance(task, Generating)
    for rows, batch, records in _batches(task, model, examples):
        wording = wordings[0] if wordings else None
        with _placed(examples, rows):
            yield from stream_text(task, model, batch, records=records, decode=decode, wording=wording)


def score(task: Task, model: nn.Module, examples: Examples) -> list[Scored]:
    """What the model says of the text of each example, in the order of the examples."""
    assert isinstance(task, Scoring)
    answers: dict[int, Scored] = {}
    with torch.inference_mode():
        for rows, batch, records in _batches(task, model, examples):
            with _placed(examples, rows):
                answers.update(zip(rows, task.score(model, batch, records=records), strict=True))
    return [answers[row] for row in range(len(examples))]


def _tokens(task: Task, model: nn.Module) -> int:
    """Tokens in a batch of those that are to be answered."""
    on_gpu = next(model.parameters()).device.type == "cuda"
    return MANY_TOKENS if on_gpu and isinstance(task, Generating) else BATCH_TOKENS


def _texts(decode: DecodeConfig) -> int | None:
    """Texts that are answered together at most; each that is drawn has its random numbers before the first step."""
    return max(1, DRAWN // (decode.n_best * decode.max_length)) if decode.sample else None


def _batches(
    task: Task, model: nn.Module, examples: Examples, *, tokens: int = BATCH_TOKENS, most: int | None = None
) -> Iterator[tuple[Sequence[int], Batch, Sequence[Any]]]:
    """Batches of so many tokens, and of `most` rows where that is less."""
    device = next(model.parameters()).device
    model.eval()
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
        where = records[0].place or f'"{shorten(records[0].key, NAMED, placeholder="…")}"'
        raise DataError(error.what, where=where, cure=error.cure) from None
