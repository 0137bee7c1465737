"""The table of parameters: every formula gives its count, what is shared counts once, the sums are the model's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from weft.catalog import CATALOG, CELLS
from weft.config import validate
from weft.inspect import FORMULAS, Part, count_parameters, parameters, sketch
from weft.nn import RNN, AttentionPooling, DecoderBlock, EncoderBlock, FeedForward, MultiHeadAttention
from weft.nn.attention import Additive
from weft.nn.linear import Linear
from weft.nn.recurrent import choose_cell

BLOCK = {"heads": 8, "feedforward": 2048}
SIDE = {"kind": "transformer", "width": 512, "heads": 8, "layers": 6, "feedforward": 2048, "norm": "post"}
OPTIONS: dict[str, list[dict[str, Any]]] = {
    "elman": [{"feedback": True}],
    "peephole_lstm": [{"peepholes": "full"}],
    "projected_lstm": [{"projection": 3}],
}


def build(task: str, model: dict[str, Any], **text: Any) -> nn.Module:
    tree = {"task": task, "data": {"train": "none"}, "text": text, "model": model}
    return sketch(validate(tree), words=37_000)


def total(model: nn.Module) -> int:
    return sum(weight.numel() for weight in model.parameters())


def assert_sound(found: Part, model: nn.Module) -> None:
    assert found.total == total(model)
    for part, _, _ in found.rows():
        if part.parts:
            assert part.count == sum(below.total for below in part.parts)
        if part.formula is not None:
            assert worth(part) == part.count, part


def worth(part: Part) -> int:
    """What the text of a formula says, by Python's arithmetic."""
    return int(eval(part.formula.text.replace("·", "*"), {}, dict(part.formula.sizes)))


MODELS = [
    (task, side)
    for task, kinds in (("lm", "language_models"), ("classify", "classifiers"), ("tag", "taggers"))
    for side in ({"kind": kind} for kind in CATALOG[kinds])
]
PAIRS = [
    ("translate", {"encoder": {"kind": encoder}, "decoder": {"kind": decoder}})
    for encoder in CATALOG["encoders"]
    for decoder in CATALOG["decoders"]
]


@pytest.mark.parametrize(("task", "model"), MODELS + PAIRS, ids=str)
def test_every_model_of_the_catalog(task: str, model: dict[str, Any]) -> None:
    built = build(task, model)
    assert_sound(count_parameters(built), built)


@pytest.mark.covers("X5", "I7")
def test_the_counts_of_the_texts() -> None:
    model = build("translate", {"encoder": SIDE, "decoder": SIDE}, shared=True)
    found = count_parameters(model)
    assert_sound(found, model)
    assert found.total == 63_082_632
    rows = {part.kind: (part.count, part.times, times) for part, _, times in found.rows()}
    assert rows["EncoderBlock"] == (3_150_336, 6, 6)
    assert rows["DecoderBlock"] == (4_199_936, 6, 6)
    assert rows["Linear"] == (37_000, 1, 1)
    texts = {part.kind: part.formula.text for part, _, _ in found.rows() if part.formula}
    assert texts["MultiHeadAttention"] == "4·p·H·m"
    assert texts["FeedForward"] == "2·p·n + n + p"
    assert texts["LayerNorm"] == "2·p"


def test_a_shared_table_counts_once_and_says_whose_it_is() -> None:
    model = build("translate", {"encoder": SIDE, "decoder": SIDE}, shared=True)
    shared = {part.name: part for part, _, _ in count_parameters(model).rows() if part.shared}
    assert {name: part.shared for name, part in shared.items()} == {
        "embedding": ("encoder.embedding.weight",),
        "output.scores": ("encoder.embedding.weight",),
    }
    assert shared["embedding"].count == 0


@pytest.mark.covers("I7")
@pytest.mark.parametrize(
    ("part", "text"),
    [
        (MultiHeadAttention(12, heads=3), "4·p·H·m"),
        (MultiHeadAttention(12, heads=3, bias=True), "4·p·H·m + 3·H·m + p"),
        (MultiHeadAttention(12, 7, heads=3), "2·p·H·m + 2·k·H·m"),
        (MultiHeadAttention(12, heads=3, head_size=5), "4·p·H·m"),
        (MultiHeadAttention(12, 7, 6, heads=3), "p·H·m + k·H·m + u·H·v + H·v·o"),
        (
            MultiHeadAttention(12, heads=3, value_head_size=5, output_size=4, bias=True),
            "p·H·m + k·H·m + u·H·v + H·v·o + 2·H·m + H·v + o",
        ),
        (FeedForward(12, 20, activation="swiglu"), "3·p·n"),
        (AttentionPooling(6, queries=4), "d·d + d + q·d"),
        (Linear(5, 3), "a·b + b"),
        (Linear(5, 3, bias=False), "a·b"),
    ],
)
def test_formulas_of_parts(part: nn.Module, text: str) -> None:
    found = count_parameters(part)
    assert found.formula.text == text
    assert_sound(found, part)


@pytest.mark.parametrize("kind", CELLS)
def test_cells(kind: str) -> None:
    for options in [
        {},
        {"bias": False},
        *OPTIONS.get(kind, []),
        *({**own, "bias": False} for own in OPTIONS.get(kind, [])),
    ]:
        cell = choose_cell({"kind": kind, **options})(4, 6)
        found = count_parameters(cell)
        assert_sound(found, cell)
        assert (found.formula is not None) == (type(cell) in FORMULAS)


def test_what_has_no_formula_is_told_by_its_parts() -> None:
    scored = MultiHeadAttention(12, heads=3, score=Additive(4, 4))
    found = count_parameters(scored)
    assert_sound(found, scored)
    assert [part.name for part in found.parts] == ["score", "joint", "output"]

    class Mine(nn.Linear):
        """A subclass, which may have more."""

    mine = count_parameters(Mine(2, 3))
    assert (mine.formula, mine.shapes, mine.count) == (None, ((3, 2), (3,)), 9)


def test_only_neighbours_that_are_alike_become_one() -> None:
    linear = nn.Linear(2, 2)
    found = count_parameters(
        nn.Sequential(linear, nn.Linear(2, 2), nn.Linear(2, 3), nn.Linear(2, 2), linear, nn.ReLU())
    )
    assert [(part.name, part.times) for part in found.parts] == [("0–1", 2), ("2", 1), ("3", 1)]
    twice = count_parameters(nn.ModuleDict({"a": linear, "b": nn.ModuleList([linear])}))
    assert (twice.total, twice.parts[1].shared) == (6, ("a.weight", "a.bias"))


def test_layers_of_one_size_fold_into_one_line_of_the_table() -> None:
    with torch.device("meta"):
        stack = nn.ModuleList(EncoderBlock(512, **BLOCK) for _ in range(3)).append(DecoderBlock(512, **BLOCK))
        rnn = RNN("lstm", 4, 4, layers=3)
    assert [(part.name, part.total) for part in count_parameters(stack).parts] == [("0–2", 9_451_008), ("3", 4_199_936)]
    assert [row.part.name for row in count_parameters(rnn).rows()] == ["", "layers.0–2.cells.0"]


def test_nothing_to_count() -> None:
    found = count_parameters(nn.ReLU())
    assert (found.kind, found.total, next(found.rows()).depth) == ("ReLU", 0, 0)


def test_a_narrow_terminal_has_fewer_columns_and_every_count() -> None:
    view = parameters(RNN("lstm", 64, 128, layers=2))
    wide, narrow = (["".join(line.plain) for line in view.lines(width)] for width in (200, 60))
    assert max(map(len, narrow)) <= 60 < max(map(len, wide))
    assert "kind" not in narrow[1]
    assert narrow[-1].endswith("columns shows kind, shape and where too.")
    counts = [
        [line.split()[-1] for line in lines if line.split() and line.split()[-1][0].isdigit()]
        for lines in (wide, narrow)
    ]
    assert counts[0] == counts[1]
