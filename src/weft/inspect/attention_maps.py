"""The view `attention`: what each token attends to, in every layer and head of any model that has attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from rich.text import Text
from torch import Tensor, nn

from weft.charts import Table
from weft.errors import ConfigError
from weft.inspect.attention_blocks import Blocks, block_sizes
from weft.inspect.attention_labels import Labels, Row, label_columns, label_rows, read_labels
from weft.inspect.attention_layers import PARTS, AttentionLayer, Part, Reduce, choose, find_layers
from weft.inspect.attention_text import map_lines, square_lines
from weft.inspect.lesson import kind_of, prepare_lesson, read_lesson
from weft.inspect.picture import gray_picture
from weft.inspect.view import Nothing, Option, View, ViewKind
from weft.models import FittedModel
from weft.nn.attention import record_attention
from weft.run import Run

MAX_DATA_CELLS: Final = 160_000
"""Cells of a map in `to_dict`; a larger one is given as means of blocks, unless all numbers are asked for."""

MAX_ALL_CELLS: Final = 20_000
"""Cells of all layers and heads together, up to which the data and the chart hold every map whole."""

SMALL_SIDE: Final = 96
"""Rows and columns of a small map of a layer and head; of a longer input it shows rows at equal distances."""


class LayerFacts(NamedTuple):
    """A layer that can be shown."""

    part: Part
    layer: int
    heads: int
    rows: int
    columns: int
    module: str


class SmallMap(NamedTuple):
    """The weights of one layer and head; of a long input each `every`-th row, and means over blocks of columns."""

    layer: int
    head: int
    every: int
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class Attention(View):
    """Attention weights of one layer and head, or of all heads reduced to one map; small maps of all others."""

    text: str
    answer: str
    part: Part
    layer: int
    head: int | None
    reduce: Reduce
    rows: tuple[Row, ...]
    columns: tuple[str, ...]
    weights: NDArray[np.float32] = field(repr=False)
    """The whole map (rows, columns)."""
    layers: tuple[LayerFacts, ...]
    small: tuple[SmallMap, ...] = field(repr=False)
    grid: tuple[int, int] | None = None
    """Rows and columns of the positions, where the columns are those of a picture."""
    picture: NDArray[np.float64] | None = field(default=None, repr=False)
    """The gray picture (H, W)."""
    size: int = 72
    whole: bool = False

    name: ClassVar[str] = "attention"
    equation: ClassVar[str] = (
        "α_tj = softmax_j(score(q_t, k_j))        score: q·k/√m in each head of a transformer\n"
        "a_t  = Σ_j α_tj v_j                      the weights α are shown; each row sums to 1\n"
        "row t of a decoder reads y_{t-1} and writes y_t\n"
        "rollout: R_l = (½ Ā_l + ½ I) R_{l-1}     Ā_l the mean over heads"
    )

    @property
    def facts(self) -> LayerFacts:
        """The layer that is shown."""
        return next(one for one in self.layers if (one.part, one.layer) == (self.part, self.layer))

    @property
    def heading(self) -> str:
        """Which layer and head."""
        return name_map(self.part, self.layer, self.head, self.facts.heads, self.reduce)

    @property
    def title(self) -> str:
        return "Attention"

    @property
    def summary(self) -> str:
        reading = {
            "cross": "Each row is a token that the model writes, each column what it reads of the source",
            "decoder": "Each row is a position of the decoder, which sees itself and the columns before it",
            "encoder": "Each row is a token of the input, each column a token that it attends to",
            "pooling": "The row is the vector that stands for the whole input, each column a token of it",
        }[self.part]
        if self.picture is not None:
            reading = "Each picture is one word of the caption: red where the word attended to"
        own = [one for one in self.layers if one.part == self.part]
        parts = [
            f"{reading}; the weights of a row sum to 1.",
            f"Shown: {self.heading}{f'; there are {len(own)} layers' if len(own) > 1 else ''}.",
        ]
        blocks = self.blocks()
        if not blocks.single:
            parts.append(f"The input is long: a cell is the mean of {blocks.tall} × {blocks.wide} weights.")
        if self.picture is None and self.can_switch:
            parts.append("A click on a small map shows it in the place of the large one.")
        if self.small and (every := max(one.every for one in self.small)) > 1:
            parts.append(f"The small maps show one row in {every}.")
        return " ".join(parts)

    @property
    def can_switch(self) -> bool:
        """Whether the chart has several maps, all whole, so that each can take the place of the large one."""
        whole = all(one.weights.shape == self.weights.shape for one in self.small)
        return len(self.small) > 1 and whole and self.blocks().single

    def blocks(self, *, sides: tuple[int, int] | None = None) -> Blocks:
        """The map in blocks, as large as a chart can be, or with at most so many rows and columns."""
        tall, wide = block_sizes(self.weights.shape[0], self.weights.shape[1], sides=sides)
        return Blocks.of(self.weights, [row.token for row in self.rows], self.columns, tall, wide)

    def to_dict(self) -> dict[str, Any]:
        whole = self.whole or self.weights.size <= MAX_DATA_CELLS
        found = self.weights if whole else self.blocks().weights
        return {
            "view": self.name,
            "text": self.text,
            "answer": self.answer,
            "part": self.part,
            "layer": self.layer,
            "head": self.head,
            "reduce": None if self.head else self.reduce,
            "rows": [row._asdict() for row in self.rows],
            "columns": list(self.columns),
            "grid": None if self.grid is None else list(self.grid),
            "block": [1, 1] if whole else [self.blocks().tall, self.blocks().wide],
            "weights": numbers(found),
            "layers": [one._asdict() for one in self.layers],
            "maps": [
                {**one._asdict(), "weights": numbers(one.weights)}
                for one in self.small
                if sum(each.weights.size for each in self.small) <= MAX_ALL_CELLS
            ],
        }

    def chart(self) -> Any:
        from weft.inspect.attention_chart import draw_map, draw_pictures

        return draw_map(self) if self.picture is None else draw_pictures(self)

    def table(self) -> Table:
        headings = ("position", "reads", "writes") if any(row.writes for row in self.rows) else ("position", "token")
        best = [f"{name} attended to" for name in ("most", "second", "third")][: len(self.columns)]
        found: list[tuple[str | float | int, ...]] = []
        for number, (row, weights) in enumerate(zip(self.rows, self.weights, strict=True), 1):
            token = (row.reads or "", row.writes or "") if len(headings) == 3 else (row.token,)
            order = np.argsort(-weights, kind="stable")[: len(best)]
            pairs = [part for column in order for part in (self.columns[column], float(weights[column]))]
            found.append((number, *token, *pairs))
        return Table((*headings, *(part for name in best for part in (name, "weight"))), found)

    def lines(self, width: int) -> list[Text]:
        head = [Text(self.answer), Text()] if self.answer else []
        body = square_lines(self) if self.grid is not None else map_lines(self, width)
        layers = {one.part: 0 for one in self.layers}
        for one in self.layers:
            layers[one.part] += 1
        have = ", ".join(f"{part} ({count})" for part, count in layers.items())
        return [*head, *body, Text(), Text(f"{self.heading}. Layers: {have}.", style="dim")]


def name_map(part: str, layer: int, head: int | None, heads: int, reduce: str) -> str:
    """Return the words for a map: "cross attention, layer 2, head 3 of 4"."""
    if heads == 1 and reduce != "rollout":
        return f"{part} attention, layer {layer}"
    if head is not None:
        return f"{part} attention, layer {layer}, head {head} of {heads}"
    all_heads = {"mean": f"mean of {heads} heads", "max": f"largest of {heads} heads", "rollout": "rolled out"}
    return f"{part} attention, layer {layer}, {all_heads[reduce]}"


def numbers(weights: NDArray[Any]) -> list[list[float]]:
    """Weights as plain numbers with six decimals."""
    return [[round(value, 6) for value in row] for row in weights.tolist()]


def attention(
    run: Run | nn.Module,
    text: Any,
    *,
    target: str | None = None,
    part: str = "auto",
    layer: int = 0,
    head: int = 0,
    reduce: Reduce = "mean",
    language: str = "",
    size: int = 72,
    whole: bool = False,
) -> Attention | Nothing:
    """Show the attention weights of a model for an input: of a run for a text (or a picture), of a module for a tensor
    or a tuple of its inputs.

    part: cross, decoder, encoder or pooling; "auto" is the first of these that the model has. layer and head count
    from 1; layer 0 is the last, head 0 all heads, reduced by mean, max or rollout. `target` is the answer that the
    decoder reads, by default the model's own. `whole` writes all numbers of a long input into `to_dict`.
    """
    if isinstance(run, nn.Module):
        labels: Labels = Labels({}, (), "", "")
        model, found = run, _run_module(run, text)
    else:
        model = run.model
        if isinstance(model, FittedModel):
            return Nothing("attention", f"{kind_of(run)} has no attention")
        record = text if not language else run.task.with_language(run.record(text), language)
        taught = prepare_lesson(run, record, target)
        with record_attention() as calls:
            read_lesson(run, taught)
        labels, found = read_labels(run, taught), find_layers(model, calls)
    if not found:
        return Nothing("attention", f"{kind_of(run)} has no attention")
    own, chosen = choose(found, part=part, layer=layer, head=head, reduce=reduce)
    shown = chosen.layer
    grid = _grid(run, shown)
    return Attention(
        labels.text,
        labels.answer,
        shown.part,
        shown.number,
        chosen.head,
        reduce,
        label_rows(labels, shown),
        label_columns(labels, shown),
        chosen.weights.numpy(),
        tuple(LayerFacts(one.part, one.number, one.heads, one.queries, one.keys, one.module) for one in found),
        small_maps(own),
        grid,
        None if grid is None or labels.picture is None else gray_picture(labels.picture),
        size,
        whole,
    )


def small_maps(layers: Sequence[AttentionLayer]) -> tuple[SmallMap, ...]:
    """Every layer and head of a part: whole, where that is little, else at most SMALL_SIDE rows and columns."""
    total = sum(one.heads * one.queries * one.keys for one in layers)
    found = []
    for one in layers:
        every = 1 if total <= MAX_ALL_CELLS else max(1, math.ceil(one.queries / SMALL_SIDE))
        columns = 1 if total <= MAX_ALL_CELLS else max(1, math.ceil(one.keys / SMALL_SIDE))
        for head in range(1, one.heads + 1):
            weights = one.weights(head, every=every).numpy()
            reduced = Blocks.of(weights, (), (), 1, columns).weights if columns > 1 else weights
            found.append(SmallMap(one.number, head, every, reduced))
    return tuple(found)


def _run_module(module: nn.Module, inputs: Any) -> list[AttentionLayer]:
    """Run a module on a tensor, or a tuple of its inputs, and return its layers of attention."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    if not given or not all(isinstance(one, Tensor) for one in given):
        raise ConfigError("a module reads tensors", where="text", cure="give a tensor (1, T, D), or a run and a text")
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        with record_attention() as calls, torch.no_grad():
            module(*given)
    finally:
        for part, training in modes:
            part.training = training
    return find_layers(module, calls)


def _grid(run: Run | nn.Module, shown: AttentionLayer) -> tuple[int, int] | None:
    """The grid of a picture's positions, where the layer attends to a picture."""
    if isinstance(run, nn.Module) or shown.part != "cross":
        return None
    grid: tuple[int, int] | None = run.task.source_grid(run.model)
    return grid


KIND = ViewKind(
    "attention",
    "Where did it look for each word?",
    attention,
    takes_target=True,
    options={
        "part": Option("choice", "auto", "attention of", choices=("auto", *PARTS)),
        "layer": Option("int", 0, "layer (0: the last)", 0, 1000),
        "head": Option("int", 0, "head (0: all of them)", 0, 1000),
        "reduce": Option("choice", "mean", "all heads by", choices=("mean", "max", "rollout")),
        "language": Option("text", "", "language to translate to"),
        "size": Option("int", 72, "pixels of a small map", 24, 480),
        "whole": Option("bool", False, "all numbers of a long input in the data"),
    },
)
