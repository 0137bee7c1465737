"""Unknown words are copied from the source by attention, as the user wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.config import validate
from weft.errors import ConfigError
from weft.tasks.generation import copy_words
from weft.text import EOS, SOS, UNK, TextConfig, Tokenizer

WORDS = TextConfig(kind="word")


def test_the_word_with_the_most_attention_is_copied() -> None:
    attention = torch.tensor([[0.1, 0.2, 0.1, 0.6], [0.7, 0.0, 0.1, 0.2], [0.1, 0.1, 0.5, 0.3]])
    words = ["", "Zürich", "Graubünden", ""]  # the first and the last column belong to no word
    assert copy_words([UNK, 7, UNK], attention, words) == {0: "Zürich", 2: "Graubünden"}
    assert copy_words([7, 8, 9], attention, words) == {}
    assert copy_words([UNK], attention, ["", "", "", ""]) == {}


def test_a_copy_stands_in_a_text_like_any_other_word() -> None:
    tokenizer = Tokenizer.learn(["we saw Bern , and we saw Chur ."] * 2, WORDS)
    ids = [SOS, *tokenizer.encode("we saw X , and Y ."), EOS]
    assert ids.count(UNK) == 2
    places = [place for place, token in enumerate(ids) if token == UNK]
    found = tokenizer.decode(ids, copied=dict(zip(places, ["Sankt-Gallen", "<unk>"], strict=True)))
    assert found == "we saw Sankt-Gallen, and <unk>."
    assert tokenizer.decode(ids) == "we saw <unk>, and <unk>."


@given(st.lists(st.text(alphabet="abc <>\\eos,.", max_size=8), max_size=5))
def test_copying_what_is_there_changes_nothing(parts: list[str]) -> None:
    text = " ".join(parts)
    for punctuation in ("split", "keep"):
        config = TextConfig(kind="word", punctuation=punctuation)
        tokenizer = Tokenizer.learn(["a b , .", text], config)
        ids = tokenizer.encode(text)
        same = {place: tokenizer.decode([index]) for place, index in enumerate(ids)}
        assert tokenizer.decode(ids, copied=same) == tokenizer.decode(ids)


@pytest.mark.parametrize(
    ("config", "text", "words"),
    [
        (TextConfig(kind="word", lowercase=True), "Das HAUS, da!", ["Das", "HAUS", ",", "da", "!"]),
        (TextConfig(kind="word", unknown="UNK"), "das UNK da", ["das", "UNK", "da"]),
        (TextConfig(kind="char"), "ab  c", ["ab", "ab", "", "", "c"]),
    ],
    ids=["lower", "unknown", "characters"],
)
def test_each_token_belongs_to_a_word_as_it_is_written(config: TextConfig, text: str, words: list[str]) -> None:
    tokenizer = Tokenizer.learn(["das haus , da !", "ab c"], config)
    assert tokenizer.words(text) == words
    assert len(tokenizer.words(text)) == len(tokenizer.encode(text))


@given(st.text(alphabet="abé😀 \n", max_size=12))
def test_subwords_belong_to_the_words_between_blanks(text: str) -> None:
    tokenizer = Tokenizer.learn(["ab aé ab 😀 a b"], TextConfig(kind="bpe", size=270))
    found = tokenizer.words(text)
    assert len(found) == len(tokenizer.encode(text))
    assert set(found) - {""} == set(text.split())


TRAIN = [
    (f"{name} {verb}", f"{done} {name}")
    for verb, done in (("sleeps", "dort"), ("runs", "court"))
    for name in "abcdefgh"
]
"""Names are copied, and each occurs too rarely to be in the vocabulary of two."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings: dict[str, Any] = {
        "text.kind": "word",
        "text.min_count": 3,
        "model.encoder.hidden": 16,
        "model.encoder.embedding": 16,
        "model.decoder.hidden": 16,
        "model.decoder.embedding": 16,
        "train.steps": 120,
        "train.rate": 0.02,
        "train.batch_tokens": 128,
        "train.evaluate_every": 120,
        "decode.copy_unknown": True,
    }
    data = {"train": TRAIN, "valid": TRAIN[:4]}
    run = weft.train({"task": "translate", "data": data}, settings, out=tmp_path_factory.mktemp("copy") / "run")
    return run.folder


@pytest.mark.covers("M4b")
def test_a_translator_copies_names_that_it_never_saw(folder: Path) -> None:
    run = weft.load(folder)
    assert str(run.predict("Zoë runs")) == "court Zoë"
    assert str(run.predict("Zoë runs", copy_unknown=False)) == "court <unk>"
    best = run.predict("Zoë runs", n_best=2, attention=True).candidates[0]
    assert best.tokens == ("court", "<unk>")
    assert best.copied == ((1, "Zoë"),)
    assert best.record()["copied"] == [[1, "Zoë"]]
    assert best.attention is not None
    assert int(best.attention[1].argmax()) == 0
    assert run.evaluate(TRAIN).metrics["exact"] == 1.0
    assert run.evaluate(TRAIN, copy_unknown=False).metrics["exact"] == 0.0
    with pytest.raises(ConfigError, match="copy_unknown = true: needs the whole text"):
        list(run.stream("Zoë runs"))


@pytest.mark.parametrize(
    ("task", "settings", "message"),
    [
        ("lm", {}, "lm has no source to copy from"),
        ("translate", {"text": {"kind": "bpe"}}, "copies nothing: text.kind"),
        (
            "translate",
            {"text": {"kind": "word"}, "model": {"decoder": {"context": "every"}}},
            "needs a decoder with att",
        ),
        (
            "translate",
            {"text": {"kind": "word", "shared": True}, "model": {"kind": "prefix"}},
            "needs a decoder with att",
        ),
    ],
    ids=["lm", "subwords", "every", "prefix"],
)
def test_where_nothing_can_be_copied_the_setting_is_refused(task: str, settings: dict[str, Any], message: str) -> None:
    tree = {"task": task, "data": {"train": "x"}, "decode": {"copy_unknown": True}, **settings}
    with pytest.raises(ConfigError, match=rf"decode\.copy_unknown = true: {message}"):
        validate(tree)
