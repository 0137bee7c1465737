"""Classifiers and regressors: one answer for a text, two texts, or feature vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.data import Steps
from weft.errors import DataError
from weft.export.onnx.runner.answering import Answering, frame_of
from weft.export.onnx.runner.graphs import Array
from weft.export.onnx.runner.sampling import softmax
from weft.export.onnx.runner.search import log_softmax

EVEN = 0.5


class ReadsWhole(Answering):
    """The base of the runners of models that read a whole input."""

    def prepare(self) -> None:
        self.frame, self.pair = frame_of(self.facts), bool(self.facts["pair"])

    def is_one_input(self, inputs: Any) -> bool:
        texts = isinstance(inputs, tuple) and len(inputs) == 2 and all(isinstance(text, str) for text in inputs)
        return super().is_one_input(inputs) or isinstance(inputs, Steps) or (self.pair and texts)

    def logits(self, inputs: Sequence[Any]) -> tuple[list[dict[str, Any]], Array]:
        """Return facts about each input, and the numbers (N, C) of the model."""
        read = [self._read(one) for one in inputs]
        name = "features" if "features" in self.statistics else "tokens"
        found = self.read_rows(name, [row for _, row in read])
        return [about for about, _ in read], np.stack(found)

    def _read(self, source: Any) -> tuple[dict[str, Any], Any]:
        columns = self.facts["columns"]
        if "features" in self.statistics:
            given = source.get(columns["features"], source.get("features")) if isinstance(source, Mapping) else source
            rows = self.standardise(given)
            return {"steps": len(rows)}, rows
        tokenizer = self.side("")
        if not self.pair:
            text = self._text(source, columns["text"])
            return {"text": text}, self.frame.around(tokenizer.encode(text))
        if isinstance(source, Mapping):
            parts = [self._text(source, columns[name]) for name in ("text", "pair")]
        else:
            parts = source.split("\t") if isinstance(source, str) else list(source)
        if len(parts) != 2 or not all(isinstance(part, str) and part.strip() for part in parts):
            raise DataError(f'"{source!s:.40}" is not a pair of texts', cure="give two texts: (first, second)")
        first, second = (part.strip() for part in parts)
        return {"text": first, "second": second}, self.frame.pair(tokenizer.encode(first), tokenizer.encode(second))

    def _text(self, source: Any, column: Any) -> str:
        if isinstance(source, Mapping):
            names = column if isinstance(column, list) else [column]
            missing = [name for name in names if name not in source]
            if missing:
                raise DataError(f"has no column {missing[0]}", where="inputs", cure="give the text")
            source = "\n".join(str(source[name]) for name in names) if len(names) > 1 else source[names[0]]
        if not isinstance(source, str):
            raise DataError(f"{source!r:.40} is no text", where="inputs", cure="give a text")
        return source


class Labels(ReadsWhole):
    """One label, or several at once."""

    def prepare(self) -> None:
        super().prepare()
        if (found := self.facts["thresholds"]) is None:
            return
        if len(found) != len(self.labels) or not all(type(one) is float and 0 < one <= 1 for one in found):
            raise ValueError("thresholds are not a share for each label")

    def predict(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.refuse_options(options)
        about, logits = self.logits(inputs)
        thresholds = self.facts["thresholds"]
        if self.facts["many"]:
            return self._several(about, logits, EVEN if thresholds is None else np.array(thresholds, dtype=np.float32))
        shares, chosen = softmax(logits.astype(np.float32)), logits.argmax(-1)
        if thresholds is not None:
            chosen = (log_softmax(logits) - np.log(np.array(thresholds, dtype=np.float32))).argmax(-1)
        answers = []
        for one, row, number in zip(about, shares.tolist(), chosen.tolist(), strict=True):
            by_label = dict(sorted(zip(self.labels, row, strict=True), key=lambda item: -item[1]))
            answers.append(one | {"label": self.labels[number], "probability": row[number], "probabilities": by_label})
        return answers

    def _several(self, about: Sequence[dict[str, Any]], logits: Array, thresholds: Any) -> list[dict[str, Any]]:
        shares = sigmoid(logits.astype(np.float32))
        answers = []
        for one, row, there in zip(about, shares.tolist(), (shares >= thresholds).tolist(), strict=True):
            order = sorted(range(len(row)), key=lambda number: -row[number])
            labels = [self.labels[number] for number in order if there[number]]
            answers.append(one | {"labels": labels, "probabilities": {self.labels[n]: row[n] for n in order}})
        return answers


class Numbers(ReadsWhole):
    """A number for each input."""

    def predict(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.refuse_options(options)
        about, logits = self.logits(inputs)
        found = self.statistics["target"].restore(logits[:, :1].astype(np.float64))[:, 0]
        return [one | {"number": number} for one, number in zip(about, found.tolist(), strict=True)]


def sigmoid(x: Array) -> Array:
    small = np.exp(-np.abs(x))
    found: Array = np.where(x >= 0, 1 / (1 + small), small / (1 + small))
    return found
