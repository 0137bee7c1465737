"""The states of one layer at every token of a corpus, as one table of numbers: what the state search reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data import BadLines, Record
from weft.errors import ConfigError, DataError
from weft.inspect.recurrent_trace import layers_of, name_states
from weft.models import FittedModel, LanguageModel
from weft.models.memory import Encoder
from weft.nn.recurrent.cell import Cell
from weft.nn.recurrent.layer import Layer
from weft.nn.state import State, leaves_of
from weft.run import Run
from weft.tasks.states import pad_ids
from weft.text import SOS

MAX_TOKENS: Final = 200_000
"""Tokens of a corpus that are read by default."""

BATCH_TOKENS: Final = 16_384
CHUNK_STEPS: Final = 1024
"""Tokens that go through the model at once; a longer text continues from the state that it was left in."""


@dataclass(frozen=True)
class CorpusStates:
    """values (N, n): a row for each token of all texts, one text after the other."""

    part: str
    layer: int
    direction: str
    state: str
    asked: str
    """The state that was asked for; "" for the output."""
    texts: tuple[str, ...]
    spans: NDArray[np.int64]
    """The first character of each token in its text, and the one after its last (N, 2)."""
    text_of: NDArray[np.int64]
    """The number of the text of each token (N,)."""
    values: NDArray[np.float32]
    cut: bool
    """Whether the corpus has more tokens than were read."""

    def token(self, place: int) -> str:
        start, end = self.spans[place]
        return self.texts[int(self.text_of[place])][start:end]

    def tokens(self) -> list[str]:
        """All tokens, as they are spelled."""
        texts = self.texts
        return [texts[t][a:b] for t, (a, b) in zip(self.text_of.tolist(), self.spans.tolist(), strict=True)]

    def bounds(self) -> Iterator[tuple[int, int]]:
        """The first token of each text, and the one after its last."""
        ends = np.searchsorted(self.text_of, np.arange(len(self.texts)), side="right").tolist()
        return zip([0, *ends[:-1]], ends, strict=True)


@dataclass(frozen=True)
class LayerChoice:
    """A part of a model, a layer from 1 (0: the last), a direction, and the name of a state ("": the output)."""

    part: str = "auto"
    layer: int = 0
    direction: str = "forward"
    state: str = ""


def read_corpus(
    run: Run, corpus: Path | str | Iterable[str], choice: LayerChoice, *, limit: int = MAX_TOKENS
) -> CorpusStates:
    """Compute the states of a layer at each token of a file, of a text with a record in each line, or of texts."""
    if isinstance(run.model, FittedModel):
        where = f'model.kind = "{getattr(run.config.model, "kind", "")}"'
        raise ConfigError("counts, and has no states", where=where, cure="neural models have them")
    run.model.eval()
    records, spans, cut = _within(run, corpus, limit)
    if not records:
        raise DataError("has no tokens", where=str(corpus)[:60], cure="give a file with texts")
    read = _Reader(run, choice)
    values = read.all(records, [len(own) for own in spans])
    return CorpusStates(
        read.part,
        read.number,
        choice.direction,
        read.state,
        choice.state,
        tuple(text for text, _ in records),
        np.concatenate([np.array(own, dtype=np.int64).reshape(-1, 2) for own in spans]),
        np.repeat(np.arange(len(spans)), [len(own) for own in spans]),
        values,
        cut,
    )


class _Reader:
    """Runs a model and takes the states of one layer."""

    def __init__(self, run: Run, choice: LayerChoice) -> None:
        self.run, self.choice = run, choice
        found = [
            (path, number, layer)
            for path, number, layer in layers_of(run.model)
            if choice.part in ("auto", *path.split(".")) and {"encoder", "decoder"} & set(path.split("."))
        ]
        last = max((number for path, number, _ in found if path == found[0][0]), default=0)
        self.number, self.layer, self.backward = choice.layer or last, None, choice.direction == "backward"
        self.order: Callable[[int], Sequence[int]] = range
        if not found:
            self._check_without_layers()
            return
        chosen = [(path, layer) for path, number, layer in found if number == self.number]
        if not chosen:
            raise ConfigError(f"there are {last} layers", where=f"layer = {choice.layer}", cure=f"from 1 to {last}")
        (path, self.layer), parent = chosen[0], run.model.get_submodule(chosen[0][0].rpartition(".")[0])
        self.part = "encoder" if "encoder" in path.split(".") else "decoder"
        if self.backward and len(self.layer.cells) == 1:
            raise ConfigError("it reads in one direction", where='direction = "backward"', cure='use "forward"')
        if self.part == "decoder" and not run.task.continues:
            raise ConfigError("a corpus is read by the encoder", where='part = "decoder"', cure='use "encoder"')
        if isinstance(parent, Encoder):
            self.order = parent.reading_order
        cell = self.layer.cells[int(self.backward)]
        assert isinstance(cell, Cell)
        names = name_states(cell, next(run.model.parameters()))
        self.state, self.leaf = choice.state or names.output, names.place(choice.state) if choice.state else None

    def _check_without_layers(self) -> None:
        """A network without recurrent layers has the states of its last layer."""
        choice = self.choice
        if choice.layer or choice.state or self.backward or choice.part not in ("auto", "encoder", "decoder"):
            cure = "leave out layer, state and direction"
            raise ConfigError("without recurrent layers the search reads the last layer", where="layer", cure=cure)
        self.part, self.state, self.leaf = "", "output", None

    @torch.no_grad()
    def all(self, records: list[tuple[str, Record]], lengths: list[int]) -> NDArray[np.float32]:
        """The states of all tokens (N, n), in the order of the records."""
        order = sorted(range(len(records)), key=lambda row: lengths[row])
        model = self.run.model
        follows = isinstance(model, LanguageModel) and model.follows
        found: dict[int, NDArray[np.float32]] = {}
        for rows in _batches(order, lengths, most=max(BATCH_TOKENS, 16 * CHUNK_STEPS) if follows else BATCH_TOKENS):
            some = [records[row][1] for row in rows]
            values = self._follow(some) if follows else self._read(some)
            for place, row in enumerate(rows):
                found[row] = values[place, : lengths[row]]
        return np.concatenate([found[row] for row in range(len(records))])

    def _follow(self, records: list[Record]) -> NDArray[np.float32]:
        """Texts of a recurrent language model, read in parts. A model that was trained with a carried state continues
        from the state of the part before; another starts anew before each part, with half a part of context that is
        dropped."""
        model, config, data = self.run.model, self.run.config, self.run.task.data
        assert isinstance(model, LanguageModel)
        rows = self.run.task.tokenizer_of("decoder").encode_many([record.key for record in records])
        tokens, _ = pad_ids([[SOS, *row] for row in rows], next(model.parameters()).device)
        carried = config.train.truncate is not None
        size = CHUNK_STEPS if carried else min(data.max_length, CHUNK_STEPS)
        half = 0 if carried else size // 2
        state: State = None
        found: list[Tensor] = []
        for first in range(0, tokens.size(1), size - half):
            parts: list[Tensor] = []
            with self._observe(parts):
                _, after = model.follow(tokens[:, first : first + size], state)
            found.append(parts[0][:, half if first else 0 :])
            state = after if carried else None
        return torch.cat(found, dim=1)[:, 1:].numpy()

    def _read(self, records: list[Record]) -> NDArray[np.float32]:
        parts: list[Tensor] = []
        with self._observe(parts):
            states = self.run.task.states(self.run.model, records)
        if self.layer is None:
            return states.float().cpu().numpy()
        lead, values = self.run.task.leading_tokens, torch.cat(parts, dim=1)
        return values[:, lead:].numpy()

    def _observe(self, parts: list[Tensor]) -> AbstractContextManager[None]:
        return nullcontext() if self.layer is None else observed(self.layer, partial(self._take, parts))

    def _take(
        self, parts: list[Tensor], x: Tensor, lengths: Tensor | None, start: State, outputs: list[Tensor]
    ) -> None:
        assert self.layer is not None
        direction = int(self.backward)
        if self.leaf is None:
            values = outputs[direction]
        else:
            values = leaves_of(self.layer.histories(x, lengths, start)[direction])[self.leaf]
        values = values.float().cpu()
        if self.order is not range:
            values = self._in_order(values, lengths)
        parts.append(values)

    def _in_order(self, values: Tensor, lengths: Tensor | None) -> Tensor:
        """The states in the order of the tokens, of an encoder that reads them in another."""
        found = values.clone()
        for row in range(len(values)):
            length = values.size(1) if lengths is None else int(lengths[row])
            found[row, self.order(length)] = values[row, :length]
        return found


@contextmanager
def observed(layer: Layer, observer: Callable[..., None]) -> Iterator[None]:
    """Call a function after each run of a layer inside the block."""
    layer.observers.append(observer)
    try:
        yield
    finally:
        layer.observers.remove(observer)


def _within(
    run: Run, corpus: Path | str | Iterable[str], limit: int
) -> tuple[list[tuple[str, Record]], list[list[tuple[int, int]]], bool]:
    """The texts of a corpus with their records and the spans of their tokens, up to a number of tokens."""
    records: list[tuple[str, Record]] = []
    spans: list[list[tuple[int, int]]] = []
    total = 0
    for record in _records(run, corpus):
        text, own = _spell(run, record)
        if not own:
            continue
        if total + len(own) > limit and total:
            return records, spans, True
        records.append((text, record))
        spans.append(own)
        total += len(own)
    return records, spans, False


def _records(run: Run, corpus: Path | str | Iterable[str]) -> Iterator[Record]:
    if isinstance(corpus, Path) and (run.task.continues or corpus.suffix != ".txt"):
        yield from run.task.read(str(corpus), run.config.data, BadLines())
        return
    if isinstance(corpus, Path):
        try:
            corpus = corpus.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise DataError(f"cannot be read: {error}", where=str(corpus), cure="name a file of UTF-8 text") from None
    running = run.task.continues and run.task.data.running
    texts = ([corpus] if running else corpus.splitlines()) if isinstance(corpus, str) else corpus
    for text in texts:
        if text.strip():
            yield run.record(text)


def _spell(run: Run, record: Record) -> tuple[str, list[tuple[int, int]]]:
    """The text of a record, and the characters of its tokens in it."""
    if run.task.continues:
        return record.key, run.task.tokenizer_of("decoder").spans(record.key)
    text, tokens, spans, at = record.key, run.task.locate(record).tokens, [], 0
    for token in tokens:
        start = text.find(token, at)
        if start < 0:
            break
        spans.append((start, start + len(token)))
        at = start + len(token)
    if len(spans) == len(tokens):
        return text, spans
    ends = np.cumsum([len(token) + 1 for token in tokens])
    return " ".join(tokens), [
        (int(end) - len(token) - 1, int(end) - 1) for token, end in zip(tokens, ends, strict=True)
    ]


def _batches(order: list[int], lengths: list[int], *, most: int) -> Iterator[list[int]]:
    """Rows by length, in batches of at most so many tokens with their padding; one row may have more."""
    batch: list[int] = []
    for row in order:
        if batch and (len(batch) + 1) * min(lengths[row] + 1, CHUNK_STEPS) > most:
            yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
