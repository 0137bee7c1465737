"""Neighbours and maps of embeddings: by hand, for every task with a table, and for words that nobody knows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import weft as library
from weft.errors import ConfigError, DataError
from weft.inspect import EmbeddingMap, Nothing, neighbours
from weft.inspect.embedding_map import project
from weft.inspect.map_chart import point_rows
from weft.models.embedding import Vectors
from weft.run import Run
from weft.tasks.word_tables import TokenVectors
from weft.text import TextConfig, Tokenizer
from weft.text.terms import read_terms

SMALL = {"hidden": 8, "embedding": 4}
ROWS = [(f"the {word}", f"le {word}o") for word in ("king", "man", "woman", "queen", "cat") for _ in range(5)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("king - man + woman", [(1, "king"), (-1, "man"), (1, "woman")]),
        ("The king, (man)!", [(1, "The"), (1, "king"), (1, "man")]),
        ("e.g. cat. ...", [(1, "e.g."), (1, "cat."), (1, "...")]),
    ],
)
def test_a_word_of_a_sentence_loses_its_punctuation_where_it_is_known_without(text, words):
    assert read_terms(text, lambda word: word in ("king", "man", "woman", "e.g.")) == words


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A translator whose encoder has vectors by hand: queen = king - man + woman."""
    tree = {"task": "translate", "data": {"train": ROWS, "valid": ROWS}, "model": {"encoder": SMALL, "decoder": SMALL}}
    settings = {"text.kind": "word", "train.steps": 1}
    made = library.train(tree, settings, out=tmp_path_factory.mktemp("runs") / "run", quiet=True)
    table = made.model.encoder.embedding  # type: ignore[union-attr]
    assert isinstance(table, Vectors)
    vectors = {
        "king": [1.0, 0.0, 1.0, 0.0],
        "man": [0.0, 0.0, 1.0, 0.0],
        "woman": [0.0, 1.0, 0.0, 0.0],
        "queen": [0.7, 1.0, 0.0, 0.0],
        "cat": [0.0, 0.0, 0.0, 1.0],
        "the": [0.0, -1.0, 0.0, 1.0],
    }
    tokenizer = made.task.tokenizer_of("encoder")
    with torch.no_grad():
        for word, vector in vectors.items():
            table.weight[tokenizer.encode_words([word])[0]] = torch.tensor(vector)
    return made


@pytest.mark.covers("I8")
def test_cosines_and_an_analogy_by_hand(run: Run) -> None:
    """king/√2 - man + woman = (.707, 1, -.293, 0), and its cosine with queen is 1.495 / (1.2593 · 1.2207) = .9726."""
    found = neighbours(run, "king - man + woman", n=3)
    assert isinstance(found, EmbeddingMap)
    (best, similarity), *_ = found.neighbours
    assert best == "queen"
    assert similarity == pytest.approx(0.97256, abs=1e-4)
    kinds = {one.word: one.kind for one in found.points}
    assert (kinds["king"], kinds["queen"], kinds["king - man + woman"]) == ("query", "neighbour", "sum")
    assert dict(run.neighbours("king", n=4))["man"] == pytest.approx(0.5**0.5)
    assert run.analogy("man", "king", "woman")[0].word == "queen"
    assert found.parts == ("encoder", "decoder")
    json.dumps(found.to_dict(), allow_nan=False)


def test_each_part_has_its_own_words(run: Run) -> None:
    found = neighbours(run, "kingo", part="decoder")
    assert isinstance(found, EmbeddingMap)
    assert {word for word, _ in found.neighbours} == {"le", "mano", "womano", "queeno", "cato"}
    with pytest.raises(ConfigError, match='did you mean "decoder"'):
        neighbours(run, "kingo", part="decodre")


def test_unknown_words_have_near_spellings(run: Run) -> None:
    with pytest.raises(DataError, match=r'"quen" has no vector in encoder \(did you mean "queen"\?\)'):
        neighbours(run, "quen")
    with pytest.raises(DataError, match="cancel out"):
        neighbours(run, "king - king")
    with pytest.raises(ConfigError, match="n = 0"):
        neighbours(run, "king", n=0)
    with pytest.raises(ConfigError, match="words = -1"):
        neighbours(run, "king", words=-1)


def test_a_subword_is_found_with_or_without_its_blank(tmp_path: Path) -> None:
    texts = [{"text": "the cat sees the dog"}, {"text": "the dog sees a cat"}] * 10
    text = {"kind": "bpe", "size": 300}
    tree = {"task": "lm", "data": {"train": texts}, "model": {"kind": "rnn"} | SMALL, "text": text}
    made = library.train(tree, {"train.steps": 1}, out=tmp_path / "run", quiet=True)
    assert made.neighbours("cat", n=3) == made.neighbours("▁cat", n=3)
    assert all(word.isprintable() and not word.startswith("<B") for word, _ in made.neighbours("cat", n=300))
    assert len(made.neighbours("elephants", n=3)) == 3


def test_models_without_embeddings_have_no_map(tmp_path: Path, texts: str) -> None:
    made = library.train({"task": "lm", "data": {"train": texts}, "model": {"kind": "ngram"}}, out=tmp_path / "run")
    assert isinstance(neighbours(made, "cat"), Nothing)
    with pytest.raises(ConfigError, match="no vectors of words"):
        made.neighbours("cat")


@given(st.integers(0, 1000), st.integers(2, 12), st.integers(1, 6))
def test_a_map_keeps_the_variance_that_it_names_and_is_always_the_same(seed: int, count: int, size: int) -> None:
    vectors = torch.randn(count, size, generator=torch.Generator().manual_seed(seed))
    places, shares = project(vectors)
    again, _ = project(vectors.clone())
    assert torch.equal(places, again)
    total = float((vectors.double() - vectors.double().mean(0)).square().sum())
    for column, share in enumerate(shares):
        assert float(places[:, column].square().sum()) == pytest.approx(share * total, rel=1e-6, abs=1e-9)
    assert abs(float(places[:, 0] @ places[:, 1])) < 1e-6 * max(total, 1.0)


def test_two_dimensions_are_drawn_as_they_are() -> None:
    vectors = torch.tensor([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    places, shares = project(vectors)
    assert places.tolist() == [[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]]
    assert shares == (pytest.approx(0.8), pytest.approx(0.2))


@pytest.mark.usefixtures("extras")
def test_the_chart_labels_the_question_and_finds_words(run: Run) -> None:
    found = neighbours(run, "king", n=2)
    assert isinstance(found, EmbeddingMap)
    specification = found.chart().to_dict()
    names = [one["name"] for one in specification["params"]]
    assert "search" in names
    labelled = {row["word"] for row in point_rows(found) if row["labelled"]}
    assert labelled == {"king", *(word for word, _ in found.neighbours)}
    lines = [line.plain for line in found.lines(80)]
    assert lines[0] == "Embeddings of encoder: king"
    assert any("● king" in line for line in lines)
    assert max(map(len, lines)) <= 80
    alone = neighbours(run)
    assert isinstance(alone, EmbeddingMap)
    assert {one.kind for one in alone.points} == {"context"}
    assert alone.chart() is not None


def test_a_word_of_several_subwords_has_their_mean():
    tokenizer = Tokenizer.learn(["low lower lowest slow"] * 3, TextConfig(kind="bpe", size=300))
    ids = tokenizer.encode(" slowlow")
    assert len(ids) > 1
    vectors = TokenVectors(tokenizer, torch.randn(len(tokenizer), 4))
    assert vectors.number("slowlow") is None
    assert torch.allclose(vectors.vector("slowlow"), torch.stack([vectors.normalized()[i] for i in ids]).mean(0))


def test_a_word_of_several_characters_has_their_mean():
    tokenizer = Tokenizer.learn(["abc cab"] * 3, TextConfig(kind="char"))
    vectors = TokenVectors(tokenizer, torch.randn(len(tokenizer), 4))
    each = torch.stack([vectors.normalized()[vectors.number(letter)] for letter in "cab"])
    assert torch.allclose(vectors.vector("cab"), each.mean(0))
    assert (vectors.count("cab"), vectors.count("a")) == (3, 1)
    assert vectors.vector("caz") is None, "a letter that the training text does not have"


def test_a_word_is_looked_up_where_it_is_split_least(tmp_path: Path) -> None:
    rows = [("kettle kettle", "bouilloire bouilloire"), ("boiler ull", "let leek")] * 8
    part = {"kind": "rnn"} | SMALL
    tree = {"task": "translate", "data": {"train": rows, "valid": rows}, "model": {"encoder": part, "decoder": part}}
    tree["text"] = {"kind": "bpe", "size": 275}
    made = library.train(tree, {"train.steps": 1}, out=tmp_path / "run", quiet=True)
    assert neighbours(made, "kettle").part == "encoder"
    assert neighbours(made, "bouilloire").part == "decoder"
    assert neighbours(made, "kettle", part="decoder").neighbours


def test_words_are_looked_up_in_the_part_that_has_them(tmp_path: Path) -> None:
    rows = [{"words": ["the", "cat", "sleeps"], "tags": ["D", "N", "V"]}] * 12
    tree = {"task": "tag", "data": {"train": rows, "valid": rows}, "model": SMALL}
    made = library.train(tree, {"train.steps": 1}, out=tmp_path / "run", quiet=True)
    assert neighbours(made, "cat").part == "encoder", "and not the characters that spell it"
    assert neighbours(made, "c").part == "speller"
    assert neighbours(made).part in ("encoder", "speller")


def test_bytes_of_a_vocabulary_of_characters_are_no_neighbours(tmp_path: Path) -> None:
    texts = [{"text": "abcab cabca"}, {"text": "bacab abc"}] * 10
    tree = {"task": "lm", "data": {"train": texts}, "model": {"kind": "rnn"} | SMALL, "text": {"kind": "char"}}
    made = library.train(tree, {"train.steps": 1}, out=tmp_path / "run", quiet=True)
    assert {word for word, _ in made.neighbours("a", n=300)} <= {"b", "c", "▁"}


def test_the_neighbours_of_a_sentence_are_those_of_its_words(run: Run) -> None:
    plain, written = (neighbours(run, text, part="encoder") for text in ("king woman", "king, woman."))
    assert isinstance(plain, EmbeddingMap)
    assert isinstance(written, EmbeddingMap)
    assert written.neighbours == plain.neighbours
    with pytest.raises(DataError, match='"kong," has no vector'):
        neighbours(run, "kong, woman.", part="encoder")
