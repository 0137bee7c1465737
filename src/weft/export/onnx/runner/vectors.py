"""Word vectors: the words nearest to a word, or to a sum such as "king - man + woman"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np

from weft.export.onnx.runner.answering import Answering, text_of
from weft.export.onnx.runner.graphs import Array
from weft.text import UNK
from weft.text.grams import ngram_buckets
from weft.text.terms import read_terms

NEIGHBOURS: Final = 10
SMALLEST_SUM: Final = 1e-4


class WordVectors(Answering):
    """Neighbours of words."""

    def prepare(self) -> None:
        self.tokenizer = self.side("")

    @cached_property
    def table(self) -> Array:
        """The vector of every word (V, D) at length 1; zeros for words that were not seen."""
        ids = np.arange(len(self.tokenizer))[None]
        found = self.graphs.run("forward", {"tokens": ids, "source_lengths": np.array([ids.shape[1]])})["vectors"][0]
        lengths = np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
        table: Array = found / lengths * (self.constants["counts"] > 0)[:, None]
        return table

    def predict(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.refuse_options(options)
        return [self._neighbours(text_of(one, (), "inputs")) for one in inputs]

    def _vector(self, word: str, number: int) -> Array | None:
        """The vector (D,) of a word at length 1; of one that is not in the vocabulary the mean of its n-grams."""
        if number != UNK:
            found: Array = self.table[number]
            return found
        sizes, word = self.facts["ngrams"], self.tokenizer.normalize(word)
        buckets = ngram_buckets(word, sizes=sizes, buckets=self.facts["buckets"]) if sizes else []
        if not buckets:
            return None
        mean: Array = self.constants["buckets"][buckets].mean(0)
        return mean / np.float32(max(float(np.linalg.norm(mean)), 1e-12))

    def vector_of(self, word: str) -> Array | None:
        """The vector (D,) of a word at length 1; None for a word that is unknown and has no n-grams."""
        return self._vector(word, self.tokenizer.encode_words([word])[0])

    def _neighbours(self, text: str) -> dict[str, Any]:
        terms = read_terms(text, lambda word: self.vector_of(word) is not None)
        numbers = [self.tokenizer.encode_words([word])[0] for _, word in terms]
        vectors = [self._vector(word, number) for (_, word), number in zip(terms, numbers, strict=True)]
        unknown = [word for (_, word), vector in zip(terms, vectors, strict=True) if vector is None]
        record: dict[str, Any] = {"text": text, "neighbours": [], "unknown": unknown}
        if unknown or not terms:
            return record
        signed = [sign * v for (sign, _), v in zip(terms, vectors, strict=True) if v is not None]
        target = np.sum(signed, axis=0)
        size = float(np.linalg.norm(target))
        if size < SMALLEST_SUM:
            return record
        cosines = self.table @ (target / np.float32(size))
        cosines[self.constants["counts"] == 0] = -np.inf
        cosines[[number for number in numbers if number != UNK]] = -np.inf
        order = [n for n in np.argsort(-cosines, kind="stable")[:NEIGHBOURS].tolist() if cosines[n] > -np.inf]
        found = [{"word": self.tokenizer.token(n), "similarity": float(cosines[n])} for n in order]
        return record | {"neighbours": found}
