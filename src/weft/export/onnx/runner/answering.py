"""The base of the runners of all tasks: the graphs, the tokenizers, and the facts of the run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from weft.data import Statistics, Steps
from weft.errors import ConfigError, DataError
from weft.export.onnx.runner.graphs import Array, Graphs, pad
from weft.export.onnx.runner.options import SearchOptions
from weft.text import Frame, Tokenizer

MAX_POSITIONS: Final = 8192
"""Positions of a batch, padding included."""


class Answering(ABC):
    """Answers the inputs of one task."""

    def __init__(
        self,
        graphs: Graphs,
        facts: Mapping[str, Any],
        tokenizers: Mapping[str, Tokenizer],
        labels: Sequence[str],
        constants: Mapping[str, Array],
    ) -> None:
        self.graphs, self.facts, self.tokenizers = graphs, facts, tokenizers
        self.labels, self.constants = tuple(labels), constants
        self.statistics = {name: Statistics.of_tree(tree) for name, tree in facts["statistics"].items()}
        self.defaults = SearchOptions.of(facts["decode"] or {})
        self.prepare()

    @abstractmethod
    def prepare(self) -> None:
        """Read the facts of this task."""

    def side(self, role: str) -> Tokenizer:
        return self.tokenizers[role] if role in self.tokenizers else self.tokenizers[""]

    @abstractmethod
    def predict(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The answer to each input, as `weft predict --json` prints it."""

    def is_one_input(self, inputs: Any) -> bool:
        """Whether it is an input, and not a list of them."""
        return isinstance(inputs, str | Mapping | bytes)

    def is_blank(self, source: Any) -> bool:
        """Whether an input is a text of nothing but blanks, which has no answer."""
        if isinstance(source, Mapping):
            columns = self.facts.get("columns") or {}
            own = next((columns[name] for name in ("text", "source") if columns.get(name) is not None), None)
            names = own if isinstance(own, list) else [own] if own in source else ["words", "text", "source"]
            texts = [source[name] for name in names if name in source]
        else:
            texts = [source]
        return bool(texts) and all(isinstance(text, str) and not text.strip() for text in texts)

    def stream(self, source: Any, options: Mapping[str, Any]) -> Iterator[str]:
        raise self.lacks("stream", "writes no text")

    def score(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        raise self.lacks("score", "is scored by weft score alone")

    def embed(self, texts: Sequence[Any]) -> Array:
        raise self.lacks("embed", "has no graph of states")

    def mean_states(self, rows: Sequence[Sequence[int]], first: int, counts: Sequence[int]) -> Array:
        """The mean of so many states of each row, from `first` on (N, D); without any it is 0."""
        states = self.read_rows("tokens", rows, "states")
        means = [row[first : first + count].sum(0) / max(1, count) for row, count in zip(states, counts, strict=True)]
        return np.stack(means)

    def lacks(self, what: str, why: str) -> ConfigError:
        return ConfigError(f"{self.facts['task']} {why}", where=what, cure="see the README.md of the folder")

    def refuse_options(self, options: Mapping[str, Any], known: Sequence[str] = ()) -> None:
        for name in options:
            if name not in known:
                raise self.lacks(name, "has no such option")

    def batches(self, rows: Sequence[Any]) -> Iterator[list[int]]:
        """The numbers of rows that are read together, those of about one length."""
        order = sorted(range(len(rows)), key=lambda number: len(rows[number]))
        group: list[int] = []
        for number in order:
            if group and len(rows[number]) * (len(group) + 1) > MAX_POSITIONS:
                yield group
                group = []
            group.append(number)
        if group:
            yield group

    def read_rows(self, name: str, rows: Sequence[Any], graph: str = "forward") -> list[Array]:
        """The first output of a graph for rows of tokens, or of feature vectors: of each row its own part."""
        found: list[Any] = [None] * len(rows)
        floats = self.statistics.get("features") is not None
        for group in self.batches(rows):
            padded, lengths = pad([rows[number] for number in group], kind=np.float32 if floats else np.int64)
            (output,) = self.graphs.run(graph, {name: padded, "source_lengths": lengths}).values()
            for number, row in zip(group, output, strict=True):
                found[number] = row
        return found

    def standardise(self, given: Any) -> Array:
        """Feature vectors (T, D) as the model reads them."""
        features = self.statistics["features"]
        array = np.asarray(given.array if isinstance(given, Steps) else given, dtype=np.float64)
        if array.ndim == 1:
            array = array[:, None]
        if array.ndim != 2 or array.shape[1] != len(features.mean) or not len(array):
            what = f"steps of {array.shape[-1] if array.ndim else 0} numbers, and the model reads {len(features.mean)}"
            raise DataError(what, cure="give a list of lists of numbers")
        return features.standardise(array)


def frame_of(facts: Mapping[str, Any]) -> Frame:
    """The special tokens around a text; feature vectors have none."""
    found = facts["frame"] or {"start": [], "between": []}
    return Frame(tuple(found["start"]), tuple(found["between"]))


def text_of(source: Any, names: Sequence[str | int | None], place: str) -> str:
    """A text, or that of a dict under the name of its column."""
    if isinstance(source, Mapping):
        found = [source[name] for name in (*names, "text", "source") if name is not None and name in source]
        if not found:
            raise DataError(f"has no column {next(iter(names), None)}", where=place, cure="give the text")
        source = found[0]
    if not isinstance(source, str):
        raise DataError(f"{source!r:.40} is no text", where=place, cure="give a text")
    return source
