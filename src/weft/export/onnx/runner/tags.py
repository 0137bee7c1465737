"""Taggers: a label for each word, by itself or as the best whole sequence (Viterbi), with its probability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.data import Steps
from weft.errors import DataError
from weft.export.onnx.runner.answering import Answering
from weft.export.onnx.runner.graphs import Array, pad
from weft.export.onnx.runner.search import log_softmax
from weft.text import Tokenizer
from weft.text.split import cut_words, split_text


class Tags(Answering):
    """Tags the words of sentences, or the steps of a sequence of feature vectors."""

    def prepare(self) -> None:
        self.words: Tokenizer | None = self.tokenizers.get("words")
        self.characters: Tokenizer | None = self.tokenizers.get("characters")

    def is_one_input(self, inputs: Any) -> bool:
        words = isinstance(inputs, tuple) and inputs and all(isinstance(word, str) for word in inputs)
        return super().is_one_input(inputs) or isinstance(inputs, Steps) or bool(words)

    def predict(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.refuse_options(options)
        if "features" in self.statistics:
            rows = [self.standardise(one) for one in inputs]
            sentences = [[str(number) for number in range(len(row))] for row in rows]
            logits = self.read_rows("features", rows)
        else:
            sentences = [self._split(one) for one in inputs]
            logits = self._read(sentences)
        return [self._answer(words, row[: len(words)]) for words, row in zip(sentences, logits, strict=True)]

    def _split(self, source: Any) -> list[str]:
        if isinstance(source, Mapping):
            source = source.get("words", source.get("text"))
        if isinstance(source, str):
            return split_text(source, None if self.characters is None else self.words)
        if not isinstance(source, Sequence) or not all(isinstance(word, str) for word in source):
            raise DataError(f"{source!r:.40} is no sentence", cure="give a text or a list of words")
        return list(source)

    def _read(self, sentences: Sequence[Sequence[str]]) -> list[Array]:
        """The logits of each sentence (T, L)."""
        assert self.words is not None
        found: list[Array] = [np.zeros((0, len(self.labels)), dtype=np.float32)] * len(sentences)
        full = [number for number, words in enumerate(sentences) if words]
        for group in self.batches([sentences[number] for number in full]):
            numbers = [full[place] for place in group]
            chosen = [sentences[number] for number in numbers]
            inputs = self._subwords(chosen) if self.facts["input"] == "subwords" else self._spelled(chosen)
            output = self.graphs.run("forward", inputs)["logits"]
            for number, row in zip(numbers, output, strict=True):
                found[number] = row
        return found

    def _subwords(self, sentences: Sequence[Sequence[str]]) -> dict[str, Array]:
        assert self.words is not None
        cut = [cut_words(self.words, words) for words in sentences]
        tokens, lengths = pad([one["subwords"] for one in cut])
        places, counts = pad([one["first"] for one in cut])
        return {"tokens": tokens, "source_lengths": lengths, "places": places, "words_lengths": counts}

    def _spelled(self, sentences: Sequence[Sequence[str]]) -> dict[str, Array]:
        """The ids of the words, and the vectors of their letters, each distinct word read once."""
        assert self.words is not None
        ids, lengths = pad([self.words.encode_words(words) for words in sentences])
        inputs = {"words": ids, "source_lengths": lengths}
        if "spell" not in self.graphs:
            return inputs
        assert self.characters is not None
        distinct = {word: number for number, word in enumerate(dict.fromkeys(w for words in sentences for w in words))}
        spellings, vectors = self.characters.encode_many(list(distinct)), dict[int, Array]()
        for group in self.batches(spellings):
            letters, sizes = pad([spellings[number] for number in group])
            found = self.graphs.run("spell", {"letters": letters, "letters_lengths": sizes})["spelled"]
            vectors |= dict(zip(group, found, strict=True))
        spelled = np.zeros((*ids.shape, len(vectors[0])), dtype=np.float32)
        for row, words in zip(spelled, sentences, strict=True):
            row[: len(words)] = [vectors[distinct[word]] for word in words]
        return inputs | {"spelled": spelled}

    def _answer(self, words: Sequence[str], logits: Array) -> dict[str, Any]:
        logits = logits.astype(np.float32)
        if "crf_start" in self.constants:
            chain = [self.constants[f"crf_{name}"] for name in ("start", "transitions", "end")]
            numbers, logs = viterbi(logits, *chain), log_marginals(logits, *chain)
        else:
            numbers, logs = logits.argmax(-1), log_softmax(logits) if len(logits) else logits
        shares = np.exp(logs[np.arange(len(words)), numbers])
        return {
            "words": list(words),
            "tags": [self.labels[number] for number in numbers.tolist()],
            "probabilities": shares.tolist(),
        }


def viterbi(u: Array, start: Array, transitions: Array, end: Array) -> Array:
    """u (T, L) -> the likeliest tags (T)."""
    if not len(u):
        return np.zeros(0, dtype=np.int64)
    best, back = start + u[0], []
    for row in u[1:]:
        reached = best[:, None] + transitions
        back.append(reached.argmax(0))
        best = reached.max(0) + row
    tags = [int((best + end).argmax())]
    for source in reversed(back):
        tags.append(int(source[tags[-1]]))
    return np.array(tags[::-1])


def log_marginals(u: Array, start: Array, transitions: Array, end: Array) -> Array:
    """u (T, L) -> log p(y_t = j) (T, L), in float64 inside."""
    if not len(u):
        return u
    wide, transitions = u.astype(np.float64), transitions.astype(np.float64)
    alpha, beta = [start + wide[0]], [end.astype(np.float64)]
    for row in wide[1:]:
        alpha.append(_sum(alpha[-1][:, None] + transitions, 0) + row)
    for row in wide[:0:-1]:
        beta.append(_sum(transitions + (row + beta[-1])[None], 1))
    whole = _sum(alpha[-1] + end, 0)
    found: Array = (np.stack(alpha) + np.stack(beta[::-1]) - whole).astype(np.float32)
    return found


def _sum(logs: Array, axis: int) -> Array:
    """log Σ exp along an axis; of nothing but -inf it is -inf."""
    most = np.maximum(logs.max(axis, keepdims=True), np.finfo(np.float64).min)
    with np.errstate(divide="ignore"):
        found: Array = np.log(np.exp(logs - most).sum(axis)) + np.squeeze(most, axis)
    return found
