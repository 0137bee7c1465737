"""The state search: hand-worked cases of its arithmetic, and a unit of a trained model that tracks quotation marks."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import weft
from weft.errors import ConfigError, DataError
from weft.inspect import Nothing, StateSearch, answer_search, search_states, states
from weft.inspect.corpus_states import LayerChoice, read_corpus
from weft.inspect.unit_search import (
    find_together,
    mark_inside,
    rank_by_token,
    rank_inside,
    rank_span,
    top_places,
)
from weft.nn.recurrent.layer import Layer

pytestmark = pytest.mark.usefixtures("extras")

WORDS = ["the", "cat", "dog", "sees", "a", "red", "bird", "and", "sun", "runs", "fast", "home"]


def quoted_texts(count: int, *, seed: int) -> list[str]:
    """Words in small letters, and in capitals between quotation marks: what follows a blank depends on the marks."""
    draw = random.Random(seed)
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(draw.randint(1, 3)):
            words = [draw.choice(WORDS) for _ in range(draw.randint(1, 5))]
            parts.append(f'"{" ".join(words).upper()}"' if draw.random() < 0.45 else " ".join(words))
        texts.append(" ".join(parts))
    return texts


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> weft.Run:
    config = {
        "task": "lm",
        "data": {"train": quoted_texts(2000, seed=0), "valid": quoted_texts(50, seed=1)},
        "text": {"kind": "char"},
        "model": {"kind": "rnn", "hidden": 24, "embedding": 12, "dropout": 0.0, "tie": False},
        "train": {"epochs": 3, "rate": 0.02},
        "seed": 0,
    }
    return weft.train(config, out=tmp_path_factory.mktemp("search") / "lm")


@pytest.fixture(scope="module")
def corpus() -> list[str]:
    return quoted_texts(300, seed=2)


def spans_of(text: str) -> np.ndarray:
    return np.array([(place, place + 1) for place in range(len(text))])


@pytest.mark.parametrize(
    ("text", "marks", "inside", "counted"),
    [
        ('a"bc"d', ('"', '"'), ".###..", "######"),
        ("a(b(c)d)e", ("(", ")"), ".######..", "#########"),
        ("a)b(c)", ("(", ")"), "...##.", "######"),
        ("a(b)c(d", ("(", ")"), ".##....", "#####.."),
        ("x<b>y</b>z", ("<b>", "</b>"), "...#####..", "##########"),
    ],
)
def test_what_is_inside(text: str, marks: tuple[str, str], inside: str, counted: str) -> None:
    found, counts = mark_inside([text], spans_of(text), [(0, len(text))], *marks)
    assert "".join(".#"[int(mark)] for mark in found) == inside
    assert "".join(".#"[int(mark)] for mark in counts) == counted


def test_units_are_ranked_by_f1_with_the_best_threshold_and_sign() -> None:
    inside = np.array([0, 1, 1, 1, 0, 0, 0, 1], dtype=bool)
    values = np.array(
        [
            [0.0, 5.0, 5.0, 5.0, 0.0, 0.0, 0.0, 5.0],  # on inside
            [0.9, 0.1, 0.1, 0.1, 0.9, 0.9, 0.9, 0.9],  # off inside, but for one token
            [0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3, 0.3],  # constant
        ],
        dtype=np.float32,
    ).T
    first, second, third = rank_inside(values, inside, np.ones(8, dtype=bool))
    assert (first.unit, first.sign, first.precision, first.recall, first.f1) == (0, 1, 1.0, 1.0, 1.0)
    assert (second.unit, second.sign, second.precision, second.recall) == (1, -1, 1.0, 0.75)
    assert second.f1 == pytest.approx(6 / 7)
    assert third.f1 == pytest.approx(2 * 0.5 / 1.5)  # always on: precision 1/2, recall 1
    given = rank_inside(values, inside, np.ones(8, dtype=bool), threshold=6.0)
    assert next(fit for fit in given if fit.unit == 0).f1 <= first.f1
    assert rank_inside(values, np.zeros(8, dtype=bool), np.ones(8, dtype=bool)) == []


def test_tokens_that_do_not_count_change_nothing() -> None:
    rng = np.random.default_rng(0)
    values, inside = rng.normal(size=(50, 4)).astype(np.float32), rng.random(50) < 0.4
    counts = np.arange(50) < 40
    changed = values.copy()
    changed[40:] = 100
    everywhere = np.ones(40, dtype=bool)
    assert rank_inside(changed, inside, counts) == rank_inside(values[:40], inside[:40], everywhere)


def test_stretches_end_with_their_text() -> None:
    on = np.array([1, 1, 0, 1, 1, 1, 1, 0, 1], dtype=bool)
    text_of = np.array([0, 0, 0, 0, 1, 1, 1, 1, 1])
    assert find_together(on, text_of, most=9) == [(4, 7), (0, 2), (3, 4), (8, 9)]
    assert find_together(np.zeros(9, dtype=bool), text_of, most=9) == []


def test_units_of_a_marked_part() -> None:
    text = np.zeros((10, 3), dtype=np.float32)
    text[4:7, 0], text[4:7, 1], text[:, 2] = 1.0, -2.0, 3.0
    text[2, 1] = -2.0
    corpus = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    best, second, _ = rank_span(text, 4, 6, corpus)
    assert (best.fit.unit, best.fit.sign, best.fit.f1) == (0, 1, 1.0)
    assert (second.fit.unit, second.fit.sign) == (1, -1)
    assert second.fit.precision == 0.75


def test_tokens_explain_the_unit_that_follows_them() -> None:
    tokens = list("abcab" * 20)
    values = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    values[:, 1] = [float(token == "c") for token in tokens]
    best = rank_by_token(values, tokens, each=2)[0]
    assert best.unit == 1
    assert best.explained == pytest.approx(1.0)
    assert best.tokens[0][0] == "c"
    assert best.tokens[0][2] == 20
    places = top_places(values, 1, 1, most=3)
    assert all(tokens[place] == "c" for place in places)
    assert len({place // 9 for place in places}) == 3


def test_the_states_of_a_corpus_are_those_of_each_text_alone(run: weft.Run, corpus: list[str]) -> None:
    for state in ("h", "c"):
        read = read_corpus(run, corpus[:9], LayerChoice(state=state))
        for number, (first, last) in enumerate(read.bounds()):
            alone = states(run, corpus[number], state=state)
            np.testing.assert_allclose(read.values[first:last], alone.values[:, 1:].T, atol=1e-5)  # type: ignore[union-attr]
            assert "".join(read.token(place) for place in range(first, last)) == corpus[number]
    assert all(not layer.observers for layer in run.model.modules() if isinstance(layer, Layer))


def test_a_unit_that_tracks_quotation_marks_is_found(run: weft.Run, corpus: list[str]) -> None:
    found = search_states(run, corpus, inside=('"', '"'))
    assert isinstance(found, StateSearch)
    best = found.units[0]
    assert best.f1 is not None
    assert best.f1 > 0.9
    always = 2 * found.share / (1 + found.share)  # type: ignore[operator]
    assert best.f1 > always + 0.2
    # The same unit, counted by hand.
    read = read_corpus(run, corpus, LayerChoice())
    on = read.values[:, best.unit] * best.sign >= np.float32(best.threshold) * best.sign
    inside = np.concatenate([[text[: place + 1].count('"') % 2 for place in range(len(text))] for text in corpus])
    assert best.precision == pytest.approx((on & (inside == 1)).sum() / on.sum())
    assert best.recall == pytest.approx((on & (inside == 1)).sum() / inside.sum())
    # The other places where it is on are in capitals.
    assert all(place.inside.strip('"').isupper() for place in found.places[:5])


def test_a_marked_part_finds_the_same_unit_and_its_places(run: weft.Run, corpus: list[str]) -> None:
    best = search_states(run, corpus, inside=('"', '"')).units[0].unit  # type: ignore[union-attr]
    found = search_states(run, corpus, like='the sun [["RED CAT]]" runs home')
    assert isinstance(found, StateSearch)
    assert best in [unit.unit for unit in found.units[:4]]
    assert found.places
    tokens = search_states(run, corpus, like='the sun "RED CAT" runs home', span=(8, 15))
    assert tokens.to_dict()["units"] == found.to_dict()["units"]
    together = search_states(run, corpus, units=[best])
    assert isinstance(together, StateSearch)
    assert together.places[0].length == max(place.length for place in together.places)


def test_all_forms_of_a_search(run: weft.Run, corpus: list[str], tmp_path: Path) -> None:
    (tmp_path / "c.txt").write_text("\n".join(corpus), encoding="utf-8")
    searches = [
        search_states(run, tmp_path / "c.txt"),
        states(run, tmp_path / "c.txt", inside=('"', '"'), state="c"),
        search_states(run, corpus, inside=("<", ">")),
        search_states(run, corpus, units=[0, 1]),
    ]
    for found in searches:
        data = found.to_dict()
        assert json.loads(json.dumps(data, allow_nan=False)) == data
        assert any(line.plain for line in found.lines(100))
        assert found.table().headings
        assert found.title
        chart = found.chart()
        assert chart is None or chart.to_dict()["$schema"]
    assert "do not occur in pairs" in searches[2].summary
    ((heading, places),) = searches[3].more_tables
    assert heading == "Where units 0, 1 are on together"
    assert len(places.rows) == len(searches[3].places)
    assert searches[3].figure().more_tables == searches[3].more_tables
    body = {"corpus": "\n".join(corpus), "inside": ['"', '"'], "state": "c"}
    assert answer_search(run, body).to_dict() == searches[1].to_dict()


def test_the_number_of_tokens_is_limited(run: weft.Run, corpus: list[str]) -> None:
    found = search_states(run, corpus, limit=500)
    assert isinstance(found, StateSearch)
    assert found.cut
    assert found.tokens <= 500
    assert "were not read" in found.summary


def test_running_text_is_read_as_it_was_trained(tmp_path: Path, corpus: list[str]) -> None:
    """Pieces with half a piece of context where each started anew in training; else one state throughout."""
    text = "\n".join(corpus)[:900]
    path = str(tmp_path / "text.txt")
    Path(path).write_text(text, encoding="utf-8")
    for truncate in (None, 16):
        config = {
            "task": "lm",
            "data": {"train": path, "valid": path, "unit": "stream", **({} if truncate else {"max_length": 32})},
            "text": {"kind": "char"},
            "model": {"kind": "rnn", "hidden": 6, "embedding": 6, "layers": 2, "tie": False},
            "train": {"epochs": 1, **({} if truncate is None else {"truncate": truncate})},
        }
        run = weft.train(config, out=tmp_path / f"run-{truncate}")
        read = read_corpus(run, [text], LayerChoice(layer=1))
        ids = torch.tensor([[2, *run.task.tokenizer.encode(text)]])
        assert ids[0, 0] == run.task.lesson(run.model, run.record("a")).batch.tokens[0, 0]
        with torch.no_grad():
            layer = run.model.decoder.rnn.layers[0]
            vectors = run.model.decoder.embedding(ids)
            start = layer.initial_state(1, vectors)
            whole = layer(vectors, None, start)[0][0, 1:]
            third = layer(vectors[:, 32:64], None, start)[0][0, 16:]
        if truncate:
            np.testing.assert_allclose(read.values, whole.numpy(), atol=1e-5)
        else:
            np.testing.assert_allclose(read.values[:31], whole[:31].numpy(), atol=1e-5)
            np.testing.assert_allclose(read.values[47:63], third.numpy(), atol=1e-5)


def test_encoders_are_searched_too(tmp_path: Path) -> None:
    rows = [{"text": f"the {word} ( runs ) home", "label": word} for word in ("cat", "dog")] * 5
    model = {"kind": "rnn", "embedding": 6, "hidden": 5}
    config = {"task": "classify", "data": {"train": rows, "valid": rows}, "model": model, "text": {"kind": "word"}}
    run = weft.train({**config, "train": {"epochs": 1}}, out=tmp_path / "run")
    texts = [row["text"] for row in rows]
    for direction in ("forward", "backward"):
        read = read_corpus(run, texts, LayerChoice(direction=direction))
        alone = states(run, texts[1], direction=direction)
        np.testing.assert_allclose(read.values[6:12], alone.values[:, :6].T, atol=1e-5)  # type: ignore[union-attr]
    found = search_states(run, texts, inside=("(", ")"))
    assert isinstance(found, StateSearch)
    assert found.share == pytest.approx(2 / 6)


def test_mistakes(run: weft.Run, corpus: list[str], tmp_path: Path) -> None:
    for error, message, options in (
        (ConfigError, "one of inside, like and units", {"inside": ("a", "b"), "units": [1]}),
        (ConfigError, "a mark is empty", {"inside": ("", "b")}),
        (ConfigError, "there are 24 units", {"units": [24]}),
        (ConfigError, "no such state", {"state": "m"}),
        (DataError, "marks no part", {"like": "nothing"}),
        (DataError, "the text has 2 tokens", {"like": "ab", "span": (1, 4)}),
    ):
        with pytest.raises(error, match=message):
            search_states(run, corpus[:5], **options)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="no tokens"):
        search_states(run, [])
    for body in ({"corpus": "a", "x": 1}, {"corpus": "a", "inside": ["("]}, {"corpus": "a", "units": ["1"]}, {}):
        with pytest.raises((ConfigError, DataError)):
            answer_search(run, body)
    counts = weft.train({"task": "lm", "data": {"train": corpus}, "model": {"kind": "ngram"}}, out=tmp_path / "counts")
    assert isinstance(search_states(counts, corpus), Nothing)
