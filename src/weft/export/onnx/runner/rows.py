"""The model's side of a search: the state of N rows, read and returned by the graph "step"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from weft.export.onnx.runner.graphs import Array, Arrays, Graphs

NEXT = "next_"


class Step(NamedTuple):
    """logits (N, V) of the next token, and attention (N, S) to the source, where there is any."""

    logits: Array
    attention: Array | None


class Rows:
    """The state of N rows, a hypothesis in each."""

    def __init__(self, graphs: Graphs, state: Arrays, count: int) -> None:
        self.graphs, self.state, self.count = graphs, state, count
        self.sentences: Array = np.arange(count)
        """The sentence of each row. Rows of one sentence have equal shared fields, such as the encoded source."""
        fields = {field.name for field in graphs.fields if not field.shared}
        self.shared = {name for name in state if name not in fields}

    @classmethod
    def start(cls, graphs: Graphs, count: int, inputs: Mapping[str, Array] | None = None) -> Rows:
        """The rows before the first token; `inputs` are those of the graph "encode" (count, …)."""
        name = "start" if inputs is None else "encode"
        first = graphs.run(name, inputs or {}) if name in graphs else {}
        state: Arrays = {}
        for field in graphs.fields:
            if field.name in first:
                array = first[field.name]
                state[field.name] = np.repeat(array, count, axis=0) if len(array) != count else array
            else:
                sizes = [0 if isinstance(size, str) else size for size in field.shape]
                state[field.name] = np.zeros((count, *sizes), dtype=np.float32)
        axes = {size for field in graphs.fields for size in field.shape if size in graphs.ragged}
        state |= {f"{axis}_lengths": inputs[f"{axis}_lengths"] for axis in axes if inputs is not None}
        return cls(graphs, state, count)

    def step(self, tokens: Array) -> Step:
        """tokens (N,) -> the scores of what may follow each."""
        found = self.graphs.run("step", {"token": tokens, **self.state})
        self._take(found)
        return Step(found["logits"], found.get("attention"))

    def read(self, tokens: Array) -> Array:
        """tokens (N, T) -> logits (N, T, V) after each, in one pass where there is one."""
        if "forward" in self.graphs:
            found = self.graphs.run("forward", {"tokens": tokens, **self.state})
            self._take(found)
            return found["logits"]
        return np.stack([self.step(tokens[:, place]).logits for place in range(tokens.shape[1])], axis=1)

    def _take(self, found: Arrays) -> None:
        self.state |= {name.removeprefix(NEXT): array for name, array in found.items() if name.startswith(NEXT)}

    def select(self, rows: Sequence[int] | Array) -> None:
        """Replace the state of row i by that of row rows[i]."""
        if len(rows) == self.count and np.array_equal(rows, np.arange(self.count)):
            return
        sentences = self.sentences[rows]
        same = np.array_equal(sentences, self.sentences)
        for name, array in self.state.items():
            if not (same and name in self.shared):
                self.state[name] = array.take(rows, axis=0)  # several times as fast as array[rows]
        self.sentences, self.count = sentences, len(rows)
