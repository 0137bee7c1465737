"""The view of attention: alignments of a trained translator, every kind of model, long inputs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

import weft as library
from weft.errors import ConfigError
from weft.inspect import Attention, Nothing, attention
from weft.inspect.attention_blocks import Blocks, block_sizes
from weft.nn import EncoderStack, MultiHeadAttention
from weft.run import Run

NOUNS = {"car": "voiture", "house": "maison", "table": "table", "door": "porte", "chair": "chaise"}
ADJECTIVES = {"red": "rouge", "yellow": "jaune", "clean": "propre", "weak": "faible"}
ARTICLES = {"the": "la", "a": "une", "my": "ma"}
PHRASES = [
    (f"{a} {j} {n}", f"{ARTICLES[a]} {NOUNS[n]} {ADJECTIVES[j]}") for a in ARTICLES for n in NOUNS for j in ADJECTIVES
] + [(f"{a} {n}", f"{ARTICLES[a]} {NOUNS[n]}") for a in ARTICLES for n in NOUNS]
"""A grammar in which adjective and noun change places."""

TINY = {"width": 16, "heads": 2, "layers": 2, "dropout": 0.0}


def train(task: str, folder: Path, rows: Any, model: dict[str, Any], **settings: Any) -> Run:
    own = {"text": {"kind": "word", "min_count": 1}} if task != "caption" else {}
    own |= {"decode": {"beam": 1, "max_length": 5}} if task in ("translate", "caption") else {}
    tree = {"task": task, "data": {"train": rows}, "model": model, "train": {"steps": 2}, **own}
    return library.train(tree, settings, out=folder)


@pytest.fixture(scope="module")
def swap(tmp_path_factory: pytest.TempPathFactory) -> Run:
    side = {"hidden": 24, "embedding": 24, "dropout": 0.0}
    rows = [row for row in PHRASES if row[0] != "the red car"]
    config = {"task": "translate", "data": {"train": rows, "valid": rows[:4]}, "text": {"kind": "word", "min_count": 1}}
    config |= {"model": {"encoder": side, "decoder": side}, "decode": {"beam": 1}}
    config |= {"train": {"steps": 150, "batch_tokens": 256, "rate": 1e-2, "evaluate_every": 150}}
    return library.train(config, out=tmp_path_factory.mktemp("swap") / "run")


@pytest.fixture(scope="module")
def transformer(tmp_path_factory: pytest.TempPathFactory) -> Run:
    side = {"kind": "transformer", **TINY}
    return train("translate", tmp_path_factory.mktemp("pair") / "run", PHRASES, {"encoder": side, "decoder": side})


@pytest.mark.covers("I3", "M4")
def test_the_alignment_crosses_where_adjective_and_noun_change_places(swap: Run) -> None:
    found = attention(swap, "the red car")
    assert isinstance(found, Attention)
    assert found.answer == "la voiture rouge"
    assert found.columns == ("the", "red", "car", "<eos>")
    assert [row.writes for row in found.rows] == ["la", "voiture", "rouge", "<eos>"]
    assert [row.reads for row in found.rows] == ["<sos>", "la", "voiture", "rouge"]
    assert found.weights[1].argmax() == 2
    assert found.weights[2].argmax() == 1
    predicted = swap.predict("the red car", attention=True).candidates[0].attention
    assert_close(torch.from_numpy(found.weights), predicted, atol=1e-5, rtol=1e-5)
    lines = [line.plain for line in found.lines(80)]
    assert any(line.startswith("voiture") and "car" in line for line in lines)


def test_another_target_is_read_in_its_place(swap: Run) -> None:
    found = attention(swap, "the red car", target="une porte")
    assert [row.writes for row in found.rows] == ["une", "porte", "<eos>"]


def assert_rows_sum_to_one(found: Attention) -> None:
    assert found.weights.shape == (len(found.rows), len(found.columns))
    np.testing.assert_allclose(found.weights.sum(-1), 1, atol=1e-5)


def test_every_layer_and_head_of_a_transformer(transformer: Run) -> None:
    found = attention(transformer, "the red car", target="la voiture rouge")
    assert [(one.part, one.layer, one.heads) for one in found.layers] == [
        ("encoder", 1, 2), ("encoder", 2, 2), ("decoder", 1, 2), ("cross", 1, 2), ("decoder", 2, 2), ("cross", 2, 2),
    ]  # fmt: skip
    assert found.part == "cross"
    assert found.layer == 2
    maps = {(one.layer, one.head): one.weights for one in found.small}
    np.testing.assert_allclose(found.weights, (maps[2, 1] + maps[2, 2]) / 2, atol=1e-6)
    largest = attention(transformer, "the red car", target="la voiture rouge", reduce="max")
    np.testing.assert_allclose(largest.weights, np.maximum(maps[2, 1], maps[2, 2]), atol=1e-6)
    one = attention(transformer, "the red car", target="la voiture rouge", layer=1, head=2)
    np.testing.assert_allclose(one.weights, maps[1, 2], atol=1e-6)
    for part in ("encoder", "decoder", "cross"):
        shown = attention(transformer, "the red car", part=part)
        assert_rows_sum_to_one(shown)
    causal = attention(transformer, "the red car", target="la voiture rouge", part="decoder")
    assert causal.columns == ("<sos>", "la", "voiture", "rouge")
    assert [row.token for row in causal.rows] == list(causal.columns)
    assert not np.triu(causal.weights, 1).any()


def test_rollout_multiplies_the_layers(transformer: Run) -> None:
    options = {"target": "la voiture rouge"}
    means = [attention(transformer, "the red car", part="encoder", layer=layer).weights for layer in (1, 2)]
    mixed = [0.5 * mean + 0.5 * np.eye(4) for mean in means]
    rolled = attention(transformer, "the red car", part="encoder", reduce="rollout")
    np.testing.assert_allclose(rolled.weights, mixed[1] @ mixed[0], atol=1e-6)
    cross = attention(transformer, "the red car", **options).weights
    through = attention(transformer, "the red car", reduce="rollout", **options)
    np.testing.assert_allclose(through.weights, cross @ rolled.weights, atol=1e-6)
    assert_rows_sum_to_one(through)


def test_what_is_asked_for_must_be_there(transformer: Run) -> None:
    with pytest.raises(ConfigError, match=r"part: .*pooling .*choose cross or decoder or encoder"):
        attention(transformer, "the car", part="pooling")
    with pytest.raises(ConfigError, match=r"layer = 3: there are 2 layers \(from 1 to 2\)"):
        attention(transformer, "the car", layer=3)
    with pytest.raises(ConfigError, match=r"head = 9: there are 2 heads"):
        attention(transformer, "the car", head=9)


def test_the_model_is_left_as_it_was(transformer: Run) -> None:
    model = transformer.model
    before = {name: value.clone() for name, value in model.state_dict().items()}
    attention(transformer, "the red car")
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    assert not any(value.requires_grad and value.grad is not None for value in model.parameters())
    assert not any(part.training for part in model.modules())
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


TEXTS = [(f"a {word} {noun}", label) for word, label in (("good", "yes"), ("bad", "no")) for noun in NOUNS]
TAGGED = [[("a", "D"), ("good", "A"), ("car", "N")], [("the", "D"), ("door", "N")]] * 6
KINDS: dict[str, tuple[str, Any, dict[str, Any], str, dict[str, int]]] = {
    "after": ("translate", PHRASES, {"decoder": {"hidden": 8}}, "the car", {"cross": 1}),
    "inside": ("translate", PHRASES, {"decoder": {"hidden": 8, "context": "attention"}}, "the car", {"cross": 1}),
    "prefix": ("translate", PHRASES, {"kind": "prefix", "decoder": TINY}, "the car", {"decoder": 2}),
    "pooling": ("classify", TEXTS, {"kind": "rnn", "pooling": "attention"}, "a good car", {"pooling": 1}),
    "encoder": ("classify", TEXTS, {"kind": "transformer", **TINY}, "a good car", {"encoder": 2, "pooling": 1}),
    "tagger": ("tag", TAGGED, {"kind": "transformer", **TINY}, "the good car", {"encoder": 2}),
    "language": ("lm", ["a good car", "the door"] * 6, {"kind": "transformer", **TINY}, "a good car", {"decoder": 2}),
}


@pytest.mark.parametrize("name", KINDS)
def test_any_model_with_attention(name: str, tmp_path: Path) -> None:
    task, rows, model, text, layers = KINDS[name]
    run = train(task, tmp_path / "run", rows, model)
    found = attention(run, text)
    assert isinstance(found, Attention)
    counted: dict[str, int] = {}
    for one in found.layers:
        counted[one.part] = counted.get(one.part, 0) + 1
    assert counted == layers
    assert_rows_sum_to_one(found)
    assert json.loads(json.dumps(found.to_dict()))["columns"] == list(found.columns)
    assert len(found.table().rows) == len(found.rows)
    if name == "prefix":
        assert found.columns[:2] == ("the", "car")
        assert found.rows[0].writes is None
        assert found.rows[-1].writes == "<eos>"


def test_models_without_attention_say_so(tmp_path: Path) -> None:
    run = train("translate", tmp_path / "run", PHRASES, {"decoder": {"hidden": 8, "context": "first"}})
    found = attention(run, "the car")
    assert isinstance(found, Nothing)
    assert "has no attention" in found.summary
    counts = library.train(
        {"task": "lm", "data": {"train": ["a b", "b a"] * 6}, "model": {"kind": "ngram"}}, out=tmp_path / "n"
    )
    assert isinstance(attention(counts, "a b"), Nothing)


def test_a_module_with_a_tensor() -> None:
    torch.manual_seed(0)
    stack = EncoderStack(16, layers=2, heads=2, feedforward=16).train()
    found = attention(stack, torch.randn(1, 5, 16), head=2)
    assert [(one.part, one.module) for one in found.layers] == [
        ("encoder", "blocks.0.attention"),
        ("encoder", "blocks.1.attention"),
    ]
    assert stack.training
    assert_rows_sum_to_one(found)
    cross = attention(MultiHeadAttention(8, 6, heads=2), (torch.randn(1, 3, 8), torch.randn(1, 4, 6)))
    assert (cross.part, cross.weights.shape) == ("cross", (3, 4))
    assert isinstance(attention(torch.nn.Linear(4, 4), torch.randn(1, 4)), Nothing)
    with pytest.raises(ConfigError, match="a module reads tensors"):
        attention(stack, "a text")


@pytest.mark.usefixtures("extras")
def test_a_chart_binds_its_parameters_to_parts_that_it_has(transformer: Run) -> None:
    specification = attention(transformer, "the red car").figure().specification
    assert specification is not None
    names = {one["name"] for chart in specification["vconcat"] for one in chart["layer"] if "name" in one}
    bound = {view for param in specification["params"] for view in param.get("views", [])}
    assert bound == names == {"cells_0", "row_labels_0", "column_labels_0", "small_maps_1"}


@pytest.mark.usefixtures("extras")
def test_a_single_map_leaves_the_title_to_the_view(swap: Run) -> None:
    figure = attention(swap, "the red car").figure()
    assert figure.specification is not None
    assert figure.titled()["title"]["text"] == "Attention"
    (map_of_cells,) = figure.specification["vconcat"]
    names = {one["name"] for one in map_of_cells["layer"] if "name" in one}
    assert {view for param in figure.specification["params"] for view in param.get("views", [])} == names


@pytest.mark.usefixtures("extras")
def test_pointing_changes_no_width_of_a_label(transformer: Run) -> None:
    figure = attention(transformer, "the red car").figure()
    assert 'fontWeight": "bold' not in json.dumps(figure.specification)
    assert "A click on a small map" in figure.summary
    assert "click" not in json.dumps(figure.titled()["vconcat"][1]["title"])


@pytest.mark.usefixtures("extras")
def test_a_long_input_is_shown_in_blocks() -> None:
    torch.manual_seed(0)
    stack = EncoderStack(24, layers=2, heads=3, feedforward=24)
    found = attention(stack, torch.randn(1, 2000, 24))
    assert found.weights.shape == (2000, 2000)
    blocks = found.blocks()
    assert max(blocks.weights.shape) <= 400
    assert blocks.tall == blocks.wide
    size = blocks.wide
    np.testing.assert_allclose(
        blocks.weights[3, 5], found.weights[3 * size : 4 * size, 5 * size : 6 * size].mean(), rtol=1e-4
    )
    assert f"{size} × {size}" in found.summary
    specification = json.dumps(found.figure().specification)
    assert len(specification) < 8_000_000
    assert len(found.lines(100)) < 100
    data = found.to_dict()
    assert data["block"] == [size, size]
    assert len(data["weights"]) == len(blocks.weights)


def test_the_longer_side_is_divided_first() -> None:
    assert block_sizes(10, 675) == (1, 2)
    assert block_sizes(675, 10) == (2, 1)
    assert block_sizes(100, 300) == (1, 1)
    tall, wide = block_sizes(2000, 500)
    assert tall > wide
    weights = np.arange(2 * 6, dtype=np.float32).reshape(2, 6)
    blocks = Blocks.of(weights, ("a", "b"), tuple("cdefgh"), 1, 3)
    np.testing.assert_allclose(blocks.weights, [[1, 4], [7, 10]])
    assert blocks.rows == ("a", "b")
    assert blocks.columns == ("c …", "f …")


@pytest.mark.covers("M5")
@pytest.mark.usefixtures("extras")
def test_attention_over_a_picture(tmp_path: Path, captioned: str, weft: Any) -> None:
    model = {"encoder": {"channels": [8]}, "decoder": {"hidden": 8, "embedding": 8}}
    run = train("caption", tmp_path / "run", captioned, model)
    picture = str(Path(captioned).parent / "0.png")
    found = attention(run, picture)
    assert found.grid == (8, 8)
    assert_rows_sum_to_one(found)
    assert len(found.lines(80)) >= 8 * len(found.rows)
    assert json.dumps(found.figure().specification).count("data:image/png;base64") == len(found.rows)
    shown = weft("inspect", "attention", str(run.folder), picture, "--out", "attention.png")
    assert shown.code == 0, shown.err
    assert Path("attention.png").stat().st_size > 1000


def test_the_command(transformer: Run, weft: Any) -> None:
    folder = str(transformer.folder)
    told = json.loads(weft("inspect", "attention", folder, "the red car", "--target", "la voiture", "--json").out)
    assert told["columns"] == ["the", "red", "car", "<eos>"]
    assert [row["writes"] for row in told["rows"]] == ["la", "voiture", "<eos>"]
    shown = weft("inspect", "attention", folder, "the red car", "--part", "encoder", "--layer", "1", "--head", "2")
    assert shown.code == 0, shown.err
    assert "encoder attention, layer 1, head 2 of 2" in shown.out
    wrong = weft("inspect", "attention", folder, "the red car", "--part", "middle")
    assert wrong.code == 2
    assert "one of auto, cross" in wrong.err
