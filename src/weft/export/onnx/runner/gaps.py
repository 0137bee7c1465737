"""Masked language models: the likeliest tokens of each gap of a text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from weft.errors import ConfigError
from weft.export.onnx.runner.answering import Answering, frame_of, text_of
from weft.export.onnx.runner.graphs import Array
from weft.export.onnx.runner.sampling import softmax
from weft.export.onnx.runner.search import best
from weft.text import MASK, SPECIALS, UNK
from weft.text.gaps import encode_gaps, fill_text


class Gaps(Answering):
    """Fills <mask> or [MASK] in texts."""

    def prepare(self) -> None:
        self.frame, self.tokenizer = frame_of(self.facts), self.side("")

    def predict(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[dict[str, Any]]:
        self.refuse_options(options, ("n_best",))
        count = options.get("n_best", self.facts["n_best"])
        if type(count) is not int or count < 1:
            raise ConfigError("is no number of candidates", where=f"n_best = {count!r:.40}", cure="at least 1")
        texts = [text_of(one, (), "inputs") for one in inputs]
        rows = [self.frame.around(encode_gaps(self.tokenizer, text)) for text in texts]
        gaps = [[place for place, token in enumerate(row) if token == MASK] for row in rows]
        wanted = [number for number, places in enumerate(gaps) if places]
        logits = self.read_rows("tokens", [rows[number] for number in wanted])
        found: list[list[Any]] = [[] for _ in texts]
        for number, row in zip(wanted, logits, strict=True):
            shares = softmax(row[gaps[number]].astype(np.float32))
            shares[:, : len(SPECIALS)] = -1.0
            values, ids = best(shares, min(count, shares.shape[1] - len(SPECIALS)))
            for place, chosen, own in zip(gaps[number], ids.tolist(), values.tolist(), strict=True):
                found[number].append([self._filler(token, share) for token, share in zip(chosen, own, strict=True)])
                rows[number][place] = chosen[0]
        return [self._answer(*one) for one in zip(texts, rows, gaps, found, strict=True)]

    def embed(self, texts: Sequence[Any]) -> Array:
        ids = self.tokenizer.encode_many([text_of(one, (), "texts") for one in texts])
        rows = [self.frame.around(row) for row in ids]
        return self.mean_states(rows, len(self.frame.start), [len(row) for row in ids])

    def _filler(self, token: int, share: float) -> dict[str, Any]:
        said = self.tokenizer.pieces([token])[0].replace("▁", " ").strip() or "▁"
        return {"token": said, "probability": share, "entry": self.tokenizer.token(token)}

    def _answer(self, text: str, row: list[int], places: list[int], found: list[Any]) -> dict[str, Any]:
        fillers = [row[place] for place in places]
        keeps = UNK in row or not fillers
        filled = fill_text(self.tokenizer, text, fillers) if keeps else self.tokenizer.decode(row)
        return {"text": text, "filled": filled, "gaps": found}
