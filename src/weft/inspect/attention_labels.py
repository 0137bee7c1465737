"""The names of rows and columns of attention: what each position reads, and what a decoder writes there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from weft.data import Picture
from weft.inspect.attention_layers import AttentionLayer
from weft.inspect.lesson import Taught
from weft.run import Run


class Row(NamedTuple):
    """A query: the token on its axis; for a decoder the token that it reads there and the one that it writes next."""

    token: str
    reads: str | None = None
    writes: str | None = None


class Labels(NamedTuple):
    """The tokens of an input: those that each part reads, and those that the decoder writes."""

    reads: dict[str, tuple[str, ...]]
    writes: tuple[str, ...]
    text: str
    answer: str
    picture: Picture | None = None


def read_labels(run: Run, taught: Taught) -> Labels:
    lesson = taught.lesson
    expected = getattr(lesson.batch, "expected", None)
    writes: tuple[str, ...] = ()
    if isinstance(expected, Tensor) and "decoder" in lesson.positions:
        writes = tuple(run.task.tokenizer_of("decoder").pieces(expected.tolist()))
    record = lesson.record
    title, picture = str(getattr(record, "title", "")), getattr(record, "picture", None)
    return Labels(lesson.positions, writes, title, taught.answer, picture)


def label_rows(labels: Labels, layer: AttentionLayer) -> tuple[Row, ...]:
    """The queries of a layer. A position of a decoder before its answer, as of a prefix, writes nothing."""
    count = layer.queries
    if layer.part == "pooling":
        return tuple(Row("the whole input" if count == 1 else f"query {number}") for number in range(1, count + 1))
    if layer.part == "encoder":
        return tuple(Row(token) for token in _named(labels.reads.get("encoder", ()), count))
    reads = _named(labels.reads.get("decoder", ()), count)
    if not 0 < len(labels.writes) <= count:
        return tuple(Row(token, token) for token in reads)
    writes = (*[None] * (count - len(labels.writes)), *labels.writes)
    cross = layer.part == "cross"
    return tuple(
        Row((written or read) if cross else read, read, written) for read, written in zip(reads, writes, strict=True)
    )


def label_columns(labels: Labels, layer: AttentionLayer) -> tuple[str, ...]:
    """The keys of a layer."""
    return _named(labels.reads.get("decoder" if layer.part == "decoder" else "encoder", ()), layer.keys)


def _named(tokens: Sequence[str], count: int) -> tuple[str, ...]:
    """The tokens, or numbers from 1 where a model reads something else than one position for each token."""
    return tuple(tokens) if len(tokens) == count else tuple(str(number) for number in range(1, count + 1))
