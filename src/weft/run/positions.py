"""The check that a model has a position for each token of its examples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.config import Config
from weft.config.schema import bounded_networks, networks
from weft.data import Examples
from weft.errors import DataError


def check_positions(config: Config, parts: Mapping[str, Examples]) -> None:
    """Raise for a row with more tokens than a network has positions, before training begins and not when it is read."""
    bounded = dict(bounded_networks(config.model))
    if dict(config.data).get("max_length") is None or not bounded:
        return
    sides = [path for path, _ in networks(config.model)]
    for part, examples in parts.items():
        lengths = examples.lengths.reshape(len(examples), -1).astype(np.int64)
        lengths = lengths if lengths.shape[1] == len(sides) else lengths.sum(1, keepdims=True)
        for path, column in zip(sides, lengths.T, strict=True):
            row = int(column.argmax())
            if column[row] <= bounded.get(path, column[row]):
                continue
            place = examples.records[row].place if examples.records is not None else ""
            what = f"a row of {column[row]:,} tokens is longer than {path}.max_positions = {bounded[path]:,}"
            cure = "lower data.max_length" if part == "train" else "shorten the text, or remove it"
            raise DataError(what, where=place or f"data.{part}", cure=cure)
