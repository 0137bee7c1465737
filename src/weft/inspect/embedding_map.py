"""The view `neighbours`: what lies near what? The nearest words of a word, and a map of them among frequent ones.

A map has the two directions in which the words shown differ most (principal components): of the vectors X (N, D) at
length 1, less their mean, the first two right singular vectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple

import torch
from rich.text import Text
from torch import Tensor

from weft.charts import Table, readable
from weft.errors import ConfigError
from weft.inspect.view import Nothing, Option, View, ViewKind
from weft.run import Run
from weft.run.vectors import find_neighbours, find_table
from weft.tasks.word_tables import WordTable, frequent_words

Kind = Literal["query", "sum", "neighbour", "context"]

CONTEXT_WORDS: Final = 300
MAX_CONTEXT_WORDS: Final = 5000


class MapPoint(NamedTuple):
    """A word of the map."""

    word: str
    kind: Kind
    """A word of the question, the sum of several, a neighbour, or a frequent word as context."""
    x: float
    y: float
    similarity: float | None
    """The cosine with the word or the sum in question; None without a question."""


@dataclass(frozen=True)
class EmbeddingMap(View):
    """The neighbours of a word or of a sum of words, and a map of vectors."""

    query: str
    part: str
    parts: tuple[str, ...]
    """All parts of the model that have vectors of words."""
    neighbours: tuple[tuple[str, float], ...]
    """The nearest words, each with its cosine."""
    points: tuple[MapPoint, ...]
    shares: tuple[float, float]
    """The share of the variance of the words shown that each direction of the map has."""

    name: ClassVar[str] = "neighbours"
    equation: ClassVar[str] = (
        "similarity(a, b) = cos(v_a, v_b) = v_a · v_b / (|v_a| |v_b|)\n"
        "a - b + c: the word d, none of a, b, c, with the largest cos(v_d, v_a/|v_a| - v_b/|v_b| + v_c/|v_c|)\n"
        "map: (x, y) = (v/|v| - mean) · (u_1, u_2), the first two principal components"
    )

    @property
    def title(self) -> str:
        return f"Embeddings of {self.part}" + (f": {readable(self.query)}" if self.query else "")

    @property
    def summary(self) -> str:
        share = 100 * sum(self.shares)
        near = f"The words nearest to “{readable(self.query)}” by their cosine, and a map" if self.query else "A map"
        return (
            f"{near} of {len(self.points):,} words in the two directions in which they differ most; these have "
            f"{share:.0f}% of the variance, so words that are close on the map need not be close."
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "view": self.name,
            "query": self.query,
            "part": self.part,
            "parts": list(self.parts),
            "neighbours": [{"word": word, "similarity": cosine} for word, cosine in self.neighbours],
            "points": [point._asdict() for point in self.points],
            "variance": list(self.shares),
        }

    def chart(self) -> Any:
        from weft.inspect.map_chart import draw_map

        return draw_map(self)

    def table(self) -> Table:
        if self.neighbours:
            return Table(("neighbour", "cosine"), [(readable(word), cosine) for word, cosine in self.neighbours])
        return Table(("word", "x", "y"), [(readable(one.word), one.x, one.y) for one in self.points])

    def lines(self, width: int) -> list[Text]:
        from weft.inspect.map_lines import map_lines

        return map_lines(self, width)


def neighbours(run: Run, word: str = "", *, n: int = 10, words: int = CONTEXT_WORDS, part: str | None = None) -> View:
    """Return the n nearest words of a word, or of a sum such as "king - man + woman", as an `EmbeddingMap`.

    `words` frequent words are the context of the map. `part` is the part of the model whose embeddings are shown, as
    in `Run.neighbours`, by default the first. Without a word it is the map alone.
    """
    tables = run.task.word_tables(run.model)
    if not tables:
        return Nothing("neighbours", "the model has no embeddings of words or tokens")
    if words < 0:
        raise ConfigError("is negative", where=f"words = {words}", cure="0 shows the neighbours alone")
    query = str(word).strip()
    name, table = find_table(run.task, run.model, part or None, query)
    found = find_neighbours(run.task, run.model, query, n=n, part=name) if query else []
    points, shares = _map_words(table, query, [one.word for one in found], words)
    if len(points) < 2:
        return Nothing("neighbours", "the vocabulary has fewer than two words with a vector")
    return EmbeddingMap(query, name, tuple(tables), tuple((one.word, one.similarity) for one in found), points, shares)


def _map_words(
    table: WordTable, query: str, near: list[str], words: int
) -> tuple[tuple[MapPoint, ...], tuple[float, float]]:
    """Return the points of the question, its neighbours and the most frequent words."""
    vectors, normalized = table.vectors, table.vectors.normalized()
    rows: dict[str, tuple[Kind, Tensor]] = {}
    terms = table.terms(query)
    for _, word in terms:
        own = table.vector(word)
        assert own is not None, "a word without a vector was refused before"
        rows[word if (number := table.number(word)) is None else vectors.words[number]] = ("query", own)
    target, _ = table.target(query)
    if target is not None:
        target = target / target.norm()
        if len(terms) > 1:
            rows[query] = ("sum", target)
    numbers = {word: number for number, word in enumerate(vectors.words)}
    for word in near:
        rows.setdefault(word, ("neighbour", normalized[numbers[word]]))
    for number in frequent_words(vectors, words):
        rows.setdefault(vectors.words[number], ("context", normalized[number]))
    if not rows:
        return (), (0.0, 0.0)
    stacked = torch.stack([vector for _, vector in rows.values()]).detach()
    places, shares = project(stacked)
    cosines = [None] * len(rows) if target is None else (stacked @ target).tolist()
    columns = zip(rows.items(), places.tolist(), cosines, strict=True)
    return tuple(MapPoint(word, kind, x, y, cosine) for (word, (kind, _)), (x, y), cosine in columns), shares


def project(vectors: Tensor) -> tuple[Tensor, tuple[float, float]]:
    """vectors (N, D) -> their places (N, 2) along the two principal components, and the share of variance of each.

    The sign of a component is free; the largest entry of each is made positive, so that a map is always the same.
    """
    centred = vectors.double() - vectors.double().mean(0)
    _, lengths, directions = torch.linalg.svd(centred, full_matrices=False)
    two = torch.zeros(2, centred.size(1), dtype=centred.dtype)
    two[: len(directions[:2])] = directions[:2]
    signs = two.gather(1, two.abs().argmax(1, keepdim=True)).sign()
    two = two * torch.where(signs == 0, 1.0, signs)
    variance = lengths.square()
    share = (torch.cat((variance, variance.new_zeros(2)))[:2] / variance.sum().clamp(min=1e-30)).tolist()
    return centred @ two.T, (share[0], share[1])


KIND = ViewKind(
    name="neighbours",
    question="What lies near what?",
    function=neighbours,
    reads_words=True,
    options={
        "n": Option("int", 10, "neighbours", 1, 100),
        "words": Option("int", CONTEXT_WORDS, "frequent words on the map", 0, MAX_CONTEXT_WORDS),
        "part": Option("text", None, "the part of the model, such as encoder"),
    },
)
