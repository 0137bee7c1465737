"""Vectors from a run: of the words, the tokens or the whole of each text; and questions to word vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from weft.arguments import read_text, read_whole, wrong
from weft.data import Batches, Record
from weft.errors import ConfigError, DataError, did_you_mean
from weft.models.vectors import Neighbour, WordVectors
from weft.tasks import Task
from weft.tasks.embed import Embed
from weft.tasks.states import Located, word_means
from weft.tasks.word_tables import WordTable

Level: TypeAlias = Literal["word", "token", "sentence"]
LEVELS: Final = ("word", "token", "sentence")

BATCH_TOKENS: Final = 4096
"""Tokens of a batch."""


class Embedded(NamedTuple):
    """The words or tokens of a text, and their vectors (T, D)."""

    tokens: tuple[str, ...]
    vectors: NDArray[np.float32]


def embed_records(
    task: Task, model: Any, records: Sequence[Record], *, level: str, batch_tokens: int = BATCH_TOKENS
) -> list[Embedded] | NDArray[np.float32]:
    """Vectors of each text's words or tokens, or one of each text (N, D); the result depends on no other text."""
    if not isinstance(level, str) or level not in LEVELS:
        raise wrong("level", level, "is no level", did_you_mean(str(level), LEVELS))
    model.eval()
    located = [task.locate(record) for record in records]
    found: dict[int, Any] = {}
    lengths = np.array([max(1, len(one.tokens)) for one in located], dtype=np.int64)
    with torch.inference_mode():
        for rows in Batches(lengths, batch_tokens=batch_tokens).in_order() if len(records) else ():
            numbers = rows.tolist()
            some = [records[row] for row in numbers]
            if level == "sentence":
                found |= zip(numbers, task.sentence_vectors(model, some).float().cpu().numpy(), strict=True)
            else:
                found |= zip(numbers, _parts(task, model, some, [located[row] for row in numbers], level), strict=True)
    if level != "sentence":
        return [found[row] for row in range(len(records))]
    return np.stack([found[row] for row in range(len(records))]) if found else np.zeros((0, 0), dtype=np.float32)


def _parts(
    task: Task, model: Any, records: Sequence[Record], located: Sequence[Located], level: str
) -> Iterator[Embedded]:
    states = task.states(model, records).float().cpu()
    for one, row in zip(located, states, strict=True):
        own = row[: len(one.tokens)]
        if level == "token":
            yield Embedded(one.tokens, own.numpy().copy())
        else:
            yield Embedded(one.words, word_means(own, one).numpy())


def find_neighbours(task: Task, model: Any, text: str, *, n: int, part: str | None = None) -> list[Neighbour]:
    """The words nearest to a word, or to a sum such as "king - man + woman", in one part of the model."""
    n, text = read_whole("n", n, least=1), read_text("text", text)
    name, table = find_table(task, model, part, text)
    found = table.neighbours(text, n=n)
    if found.unknown or not text.split():
        unknown = found.unknown[0] if found.unknown else text
        raise DataError(f'"{unknown}" has no vector in {name}', cure=_near(unknown, table.known_words()))
    if not found.neighbours:
        raise DataError(f'"{text}" has no neighbours: its vectors cancel out', cure="leave out a word")
    return list(found.neighbours)


def find_table(task: Task, model: Any, part: str | None = None, text: str = "") -> tuple[str, WordTable]:
    """The vectors of single words or tokens in a part of the model, by default the one that has those of a text: of
    several the one that splits its words least, and then the first."""
    tables = task.word_tables(model)
    if not tables:
        where = f'task = "{task.name}"'
        raise ConfigError("the model has no vectors of words", where=where, cure="models with embeddings have them")
    if part is not None and (not isinstance(part, str) or part not in tables):
        raise wrong("part", part, "has no vectors of words", did_you_mean(str(part), tables))
    if part is None:
        knowing = [name for name, table in tables.items() if not table.target(text)[1]]
        # Without a text, or where none knows it: words, before the characters that spell them.
        whole = max(tables, key=lambda name: len(tables[name].known_words()))
        least = min(knowing, key=lambda name: _tokens(tables[name], text), default=whole)
        part = least if text.split() else whole
    return part, tables[part]


def _tokens(table: WordTable, text: str) -> int:
    return sum(table.count(word) for _, word in table.terms(text))


def word_table(task: Task, model: Any) -> tuple[list[str], NDArray[np.float32]]:
    """The words that occurred in the training text, the most frequent first, and their vectors (N, D)."""
    task, model = _vectors_of(task, model)
    order = torch.argsort(model.counts, descending=True, stable=True)
    order = order[model.counts[order] > 0]
    return [model.words[number] for number in order.tolist()], model.vectors(order).numpy()


def _vectors_of(task: Task, model: Any) -> tuple[Embed, WordVectors]:
    if not isinstance(task, Embed) or not isinstance(model, WordVectors):
        where = f'task = "{task.name}"'
        raise ConfigError("writes no vectors of words", where=where, cure="runs of embed do; see run.embed")
    return task, model


def _near(word: str, words: Sequence[str]) -> str:
    near = get_close_matches(word, [bare for bare in (one.strip("▁") for one in words) if bare], n=3, cutoff=0.7)
    names = " or ".join(f'"{name}"' for name in dict.fromkeys(near))
    return f"did you mean {names}?" if names else "the training text has too few of it"
