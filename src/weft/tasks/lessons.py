"""One input with its answer, as a model reads it in training: the example that gradients, gates and attention are shown
for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch

from weft.data import Examples, Labelled, ManyLabelled, Measured, Pair, Ragged, Record, Tagged
from weft.errors import DataError
from weft.tasks.batch import Batch
from weft.text import Tokenizer


class Lesson(NamedTuple):
    """A batch of one record, and the tokens that each part of the model reads at its positions."""

    record: Any
    batch: Any
    positions: dict[str, tuple[str, ...]]
    """By the name of the part: "encoder", "decoder". The decoder of a translator reads a start token first."""


class WithLessons:
    """The part of a task's contract that shows a model one example as training does."""

    has_answer: bool = False
    """Whether an input holds its own answer: the text of a language model, a series whose end is forecast."""

    def answered(self, record: Any, answer: Any) -> Any:
        """The record with an answer: a prediction of the model, or a text that a user wrote."""
        return fill_record(record, answer)

    def lesson(self, model: Any, record: Any) -> Lesson:
        """The batch of one answered record; nothing in it is random."""
        columns = {name: Ragged.from_lists(rows) for name, rows in self.encode([record], None).items()}  # type: ignore[attr-defined]
        examples = Examples(columns, self.cost(columns), records=[record])  # type: ignore[attr-defined]
        device = next(model.parameters(), torch.empty(0)).device
        batch: Batch = self.collate(examples, [0]).to(device)  # type: ignore[attr-defined]
        return Lesson(record, batch, self.read_positions(model, batch, record))

    def read_positions(self, model: Any, batch: Any, record: Any) -> dict[str, tuple[str, ...]]:
        """The tokens that each part of the model reads, of a batch of one record."""
        if batch.tokens.is_floating_point():
            return {"encoder": tuple(map(str, range(batch.tokens.size(1))))}
        return {"encoder": read_tokens(self.tokenizer_of("encoder"), batch.tokens)}  # type: ignore[attr-defined]


def read_tokens(tokenizer: Tokenizer, tokens: torch.Tensor) -> tuple[str, ...]:
    """tokens (1, T) -> their texts, readable."""
    return tuple(tokenizer.pieces(tokens[0].tolist()))


def fill_record(record: Record, answer: Any) -> Record:
    """Return the record with an answer in the place that training reads it from."""
    if isinstance(record, Pair):
        return replace(record, target=getattr(answer, "text", None) or str(answer))
    if isinstance(record, Labelled):
        return replace(record, label=str(answer))
    if isinstance(record, ManyLabelled):
        labels: Sequence[str] = getattr(answer, "labels", None) or [part.strip() for part in str(answer).split(",")]
        return replace(record, labels=tuple(labels))
    if isinstance(record, Measured):
        return replace(record, number=_number(answer))
    if isinstance(record, Tagged):
        tags = tuple(getattr(answer, "tags", None) or str(answer).split())
        if len(tags) != len(record.words):
            what = f"{len(tags)} tags for {len(record.words)} words"
            raise DataError(what, where="target", cure="give one tag for each word, separated by blanks")
        return replace(record, tags=tags)
    return record


def _number(answer: Any) -> float:
    try:
        return float(getattr(answer, "number", answer))
    except (TypeError, ValueError):
        raise DataError(f"{answer!r:.40} is no number", where="target", cure="give a number") from None
