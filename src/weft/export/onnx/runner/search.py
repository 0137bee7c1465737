"""Greedy and beam search in numpy, as weft.decoding makes it: the same scores, limits, and rules for stopping.

All sentences of a search start together; those that have ended are dropped. A sentences, K hypotheses of each, V
tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from weft.export.onnx.runner.graphs import Array
from weft.export.onnx.runner.options import SearchOptions
from weft.export.onnx.runner.rows import Rows
from weft.text import EOS

NOTHING: Final = -np.inf


class Hypothesis(NamedTuple):
    """A text without its end token; `log_probabilities` of its tokens and its end; score = their sum / number^α."""

    tokens: tuple[int, ...]
    score: float
    log_probabilities: tuple[float, ...]
    finished: bool
    path: tuple[int, ...]
    attention: Array | None
    rank: float


class Asked(NamedTuple):
    """The start of a search: the token that each sentence reads first (A), its most tokens (A), tokens that are never
    written, the seeds of sampled texts (A), and the tokens of the prompts, which penalties count."""

    begins: Sequence[int]
    limits: Sequence[int]
    forbid: Sequence[int]
    keys: Sequence[int]
    prompts: Sequence[Sequence[int]]


def log_softmax(logits: Array) -> Array:
    """logits (…, V) -> log-probabilities, in float32 or wider."""
    logits = logits.astype(np.promote_types(logits.dtype, np.float32), copy=False)
    shifted = logits - logits.max(-1, keepdims=True)
    found: Array = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return found


def best(values: Array, count: int) -> tuple[Array, Array]:
    """values (N, M) -> the `count` highest of each row, the highest first, and their places."""
    count = min(count, values.shape[1])
    if count < values.shape[1]:
        places = np.sort(np.argpartition(-values, count - 1, axis=1)[:, :count], axis=1)
    else:
        places = np.broadcast_to(np.arange(count), values.shape)
    order = np.argsort(-np.take_along_axis(values, places, 1), axis=1, kind="stable")
    places = np.take_along_axis(places, order, 1)
    return np.take_along_axis(values, places, 1), places


class Texts:
    """Tokens that the hypotheses of A sentences have so far, (A, K, steps)."""

    def __init__(self, count: int, width: int) -> None:
        self.tokens: Array = np.zeros((count, width, 0), dtype=np.int64)
        self.logs: Array = np.zeros((count, width, 0), dtype=np.float32)
        self.paths: Array = np.zeros((count, width, 0), dtype=np.int64)
        self.attention: Array | None = None

    def append(self, tokens: Array, logs: Array, places: Array) -> None:
        """Add a step: hypothesis k of a sentence extends that of places[k]."""
        own = np.broadcast_to(np.arange(places.shape[1]), places.shape)
        for name, new in (("tokens", tokens), ("logs", logs), ("paths", own)):
            before = np.take_along_axis(getattr(self, name), places[:, :, None], 1)
            setattr(self, name, np.concatenate([before, new[:, :, None]], axis=2))
        if self.attention is not None:
            self.attention = np.take_along_axis(self.attention, places[:, :, None, None], 1)

    def look(self, attention: Array | None) -> None:
        """Add the attention (A·K, S) of this step, before the hypotheses are chosen."""
        if attention is None:
            return
        count, width = self.tokens.shape[:2]
        new = attention.reshape(count, width, 1, -1)
        self.attention = new if self.attention is None else np.concatenate([self.attention, new], axis=2)

    def keep(self, sentences: Array) -> None:
        self.tokens, self.logs, self.paths = (part[sentences] for part in (self.tokens, self.logs, self.paths))
        self.attention = None if self.attention is None else self.attention[sentences]

    def hypothesis(self, row: int, place: int, options: SearchOptions, *, rank: float, end: float | None) -> Hypothesis:
        """The text at a place of the beam; `end` is the log-probability of its end token, where that follows."""
        logs, path = self.logs[row, place].tolist(), self.paths[row, place].tolist()
        if end is not None:
            logs, path = [*logs, end], [*path, place]
        score = sum(logs) / max(1, len(logs)) ** options.length_penalty
        attention = None if self.attention is None else self.attention[row, place, : len(logs)]
        tokens = tuple(self.tokens[row, place].tolist())
        ranked = options.penalises and not options.sample
        return Hypothesis(
            tokens, score, tuple(logs), end is not None, tuple(path), attention, rank if ranked else score
        )


class Search:
    """A search that makes one step at a time; `found` are the texts of each sentence when it is over."""

    def __init__(self, rows: Rows, asked: Asked, options: SearchOptions, *, attention: bool = False) -> None:
        """rows: A·K rows, K for each sentence, after their prompts."""
        count, width = len(asked.begins), options.width
        self.rows, self.asked, self.options, self.watched = rows, asked, options, attention
        self.sentences = np.arange(count)
        self.limits = np.array(asked.limits, dtype=np.int64)
        self.tokens = np.repeat(np.array(asked.begins, dtype=np.int64)[:, None], width, axis=1)
        self.sums = np.full((count, width), NOTHING, dtype=np.float32)
        self.sums[:, 0] = 0.0
        self.texts = Texts(count, width)
        self.length = 0
        self.ended = np.zeros(count, dtype=np.int64)
        self.best = np.full((count, options.n_best), NOTHING, dtype=np.float32)
        """The scores of the best that have ended, in the order of `finished`."""
        self.finished: list[list[Hypothesis]] = [[] for _ in range(count)]
        self.found: list[list[Hypothesis]] = [[] for _ in range(count)]
        self.written: Array | None = None
        """Times that each hypothesis has written each token (A, K, V), where penalties count them."""

    @property
    def over(self) -> bool:
        return not len(self.sentences)

    def step(self) -> None:
        """Extend all hypotheses by one token."""
        logits, attention = self.rows.step(self.tokens.reshape(-1))
        self.length += 1
        if self.watched:
            self.texts.look(attention)
        every, model = self._next(logits)
        self._advance(every, model)

    def _next(self, logits: Array) -> tuple[Array, Array]:
        """The log-probabilities (A, K, V) to rank by, and those of the model: both without forbidden tokens."""
        count, width = self.tokens.shape
        model = self._allowed(log_softmax(logits)).reshape(count, width, -1)
        if not self.options.penalises:
            return model, model
        shaped = logits.reshape(count, width, -1).astype(np.float32)
        if self.written is None:
            self.written = np.zeros(shaped.shape, dtype=np.int32)
        read = np.zeros((count, 1, shaped.shape[2]), dtype=bool)
        for row, sentence in enumerate(self.sentences.tolist()):
            read[row, 0, list(self.asked.prompts[sentence])] = True
        penalised = penalise(shaped, self.written, read, self.options)
        return self._allowed(log_softmax(penalised)), model

    def _allowed(self, logs: Array) -> Array:
        logs[..., list(self.asked.forbid)] = NOTHING
        if self.length <= self.options.min_length:
            logs[..., EOS] = NOTHING
        return logs

    def _advance(self, every: Array, model: Array) -> None:
        count, width = self.tokens.shape
        per_row = min(width + 1, every.shape[2])
        # A row has at most K of the continuations, so its K + 1 best tokens, one of which may be the end, are enough.
        flat, tokens = best(every.reshape(count * width, -1), per_row)
        flat = np.where(tokens == EOS, NOTHING, flat).astype(np.float32)
        sums, picks = best((self.sums.reshape(-1, 1) + flat).reshape(count, -1), width)
        tokens, places = np.take_along_axis(tokens.reshape(count, -1), picks, 1), picks // per_row
        ends = self.sums + every[:, :, EOS]
        higher = (np.concatenate([ends, sums], 1)[:, None, :] > ends[:, :, None]).sum(2)
        ends = np.where(higher >= width, NOTHING, ends).astype(np.float32)
        scores = ends / np.float32(max(1, self.length)) ** np.float32(self.options.length_penalty)
        for row, place in zip(*np.nonzero(ends > NOTHING), strict=True):
            self._end(int(row), int(place), float(scores[row, place]), float(model[row, place, EOS]))
        self.ended += (ends > NOTHING).sum(1)
        logs = model[np.arange(count)[:, None], places, tokens]
        self._extend(tokens, logs, places, sums)
        longest = self.limits.astype(np.float32) ** np.float32(self.options.length_penalty)
        bound = sums.max(1) / longest
        if self.options.by_bound:
            enough = bound <= self.best.min(1)
        else:
            enough = (self.ended >= self.options.ends) | (bound == NOTHING)
        self._drop(enough | (self.length >= self.limits), places)

    def _extend(self, tokens: Array, logs: Array, places: Array, sums: Array) -> None:
        self.texts.append(tokens, logs, places)
        if self.written is not None:
            self.written = np.take_along_axis(self.written, places[:, :, None], 1)
            rows, columns = np.indices(tokens.shape)
            self.written[rows, columns, tokens] += 1
        self.tokens, self.sums = tokens, sums

    def _end(self, row: int, place: int, score: float, log: float) -> None:
        """Keep a hypothesis that ends if it is among the n_best."""
        lowest = int(self.best[row].argmin())
        if not score > self.best[row, lowest]:
            return
        one = self.texts.hypothesis(row, place, self.options, rank=score, end=log)
        if len(self.finished[row]) < self.options.n_best:
            lowest = len(self.finished[row])
            self.finished[row].append(one)
        else:
            self.finished[row][lowest] = one
        self.best[row, lowest] = score

    def _drop(self, done: Array, places: Array) -> None:
        """Finish the sentences that are done and keep the rows of the others."""
        for row in np.flatnonzero(done).tolist():
            self.found[int(self.sentences[row])] = self._texts_of(row)
        kept, width = np.flatnonzero(~done), self.tokens.shape[1]
        if done.any():
            self.sentences, self.limits, self.ended = self.sentences[kept], self.limits[kept], self.ended[kept]
            self.tokens, self.sums, self.best = self.tokens[kept], self.sums[kept], self.best[kept]
            self.finished = [self.finished[row] for row in kept]
            self.texts.keep(kept)
            self.written = None if self.written is None else self.written[kept]
        if len(kept):
            self.rows.select((kept[:, None] * width + places[kept]).reshape(-1))

    def _texts_of(self, row: int) -> list[Hypothesis]:
        """The n_best: those that have ended, then those cut by the limit; the best first."""
        found = list(self.finished[row])
        length = np.float32(max(1, self.length)) ** np.float32(self.options.length_penalty)
        for place in np.flatnonzero(self.sums[row] > NOTHING)[: self.options.n_best - len(found)].tolist():
            rank = float(self.sums[row, place] / length)
            found.append(self.texts.hypothesis(row, place, self.options, rank=rank, end=None))
        return sorted(found, key=lambda one: (not one.finished, -one.rank))

    def open_texts(self) -> list[tuple[int, ...]]:
        """The texts of one sentence, as far as they go, of which one will be the best."""
        live = np.flatnonzero(self.sums[0] > NOTHING)
        found = [tuple(self.texts.tokens[0, place].tolist()) for place in live]
        ended = self.finished[0]
        return found + ([ended[int(self.best[0].argmax())].tokens] if ended else [])


def penalise(logits: Array, written: Array, read: Array, options: SearchOptions) -> Array:
    """logits (A, K, V) with the penalties for tokens of the text, or of the prompt."""
    if options.repetition_penalty != 1.0:
        penalty = np.float32(options.repetition_penalty)
        changed = np.where(logits > 0, logits / penalty, logits * penalty)
        logits = np.where(read | (written > 0), changed, logits)
    if options.frequency_penalty:
        logits = logits - np.float32(options.frequency_penalty) * written.astype(np.float32)
    if options.presence_penalty:
        logits = logits - np.float32(options.presence_penalty) * (written > 0)
    return logits
