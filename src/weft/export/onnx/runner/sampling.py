"""Sampling in numpy: tokens drawn by their probability, with the random numbers of weft for the same seed."""

from __future__ import annotations

import numpy as np

from weft.export.onnx.runner.graphs import Array
from weft.export.onnx.runner.options import SearchOptions
from weft.export.onnx.runner.rows import Rows
from weft.export.onnx.runner.search import NOTHING, Asked, Hypothesis, Search, best
from weft.text import EOS


class Sampling(Search):
    """Independent texts of each sentence, one in each place of the beam."""

    def __init__(self, rows: Rows, asked: Asked, options: SearchOptions, *, attention: bool = False) -> None:
        super().__init__(rows, asked, options, attention=attention)
        self.sums[:] = 0.0
        self.done: list[dict[int, Hypothesis]] = [{} for _ in asked.begins]
        """The texts of each sentence that have ended, by their place."""
        self.uniforms = np.stack([_uniforms(key, options, max(asked.limits)) for key in asked.keys])

    def _advance(self, every: Array, model: Array) -> None:
        count, width = self.tokens.shape
        uniforms = self.uniforms[self.sentences, :, self.length - 1].reshape(-1)
        tokens = draw(every.reshape(count * width, -1), uniforms, self.options).reshape(count, width)
        searched, logs = (np.take_along_axis(part, tokens[:, :, None], 2)[:, :, 0] for part in (every, model))
        logs = np.where(searched > NOTHING, logs, searched)
        sums = np.where(self.sums > NOTHING, self.sums + logs, NOTHING).astype(np.float32)
        ends = (tokens == EOS) & (sums > NOTHING)
        for row, place in zip(*np.nonzero(ends), strict=True):
            one = self.texts.hypothesis(int(row), int(place), self.options, rank=0.0, end=float(logs[row, place]))
            self.done[self.sentences[row]][int(place)] = one
        places = np.broadcast_to(np.arange(width), tokens.shape)
        self._extend(tokens, logs, places, np.where(ends, NOTHING, sums).astype(np.float32))
        self._drop((self.sums == NOTHING).all(1) | (self.length >= self.limits), places)

    def _texts_of(self, row: int) -> list[Hypothesis]:
        done = self.done[self.sentences[row]]
        found = [done[place] for place in sorted(done)]
        for place in np.flatnonzero(self.sums[row] > NOTHING).tolist():
            found.append(self.texts.hypothesis(row, place, self.options, rank=0.0, end=None))
        return sorted(found, key=lambda one: (not one.finished, -one.score))

    def open_texts(self) -> list[tuple[int, ...]]:
        done = self.done[self.sentences[0]]
        return [done[0].tokens] if done else [tuple(self.texts.tokens[0, 0].tolist())]


def _uniforms(key: int, options: SearchOptions, longest: int) -> Array:
    """(n_best, longest) random numbers in [0, 1), which depend on the seed, the input and the number of the text."""
    rows = [
        np.random.default_rng([options.seed, key, number]).random(longest, dtype=np.float32)
        for number in range(options.n_best)
    ]
    return np.array(rows, dtype=np.float64)


def draw(logs: Array, uniforms: Array, options: SearchOptions) -> Array:
    """log-probabilities (N, V), uniforms (N,) -> tokens (N,): the first whose cumulative share passes."""
    shares, tokens = reshape(logs, options)
    cumulative = shares.cumsum(-1)
    target = uniforms[:, None] * cumulative[:, -1:]
    place = np.minimum((cumulative <= target).sum(-1, keepdims=True), shares.shape[1] - 1)
    return np.take_along_axis(tokens, place, 1)[:, 0]


def reshape(logs: Array, options: SearchOptions) -> tuple[Array, Array]:
    """log-probabilities (N, V) -> probabilities (N, M) to draw by, up to a factor, and their tokens (N, M)."""
    scaled = logs.astype(np.float64) / options.temperature
    if not options.top_k and options.top_p == 1.0:
        tokens, shares = np.broadcast_to(np.arange(scaled.shape[1]), scaled.shape), softmax(scaled)
    else:
        scaled, tokens = best(scaled, options.top_k or scaled.shape[1])
        shares = softmax(scaled)
        before = np.concatenate([np.zeros_like(shares[:, :1]), shares.cumsum(-1)[:, :-1]], axis=-1)
        shares = np.where(before >= options.top_p, 0.0, shares)
    if options.min_p:
        shares = np.where(shares < options.min_p * shares.max(-1, keepdims=True), 0.0, shares)
    return shares, tokens


def softmax(x: Array) -> Array:
    small = np.exp(x - x.max(-1, keepdims=True))
    found: Array = small / small.sum(-1, keepdims=True)
    return found
