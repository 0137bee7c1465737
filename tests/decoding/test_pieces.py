"""Tokens of any tokenizer become text piece by piece: what was given stays true, and the whole is the whole."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import ConfigError
from weft.tasks.wording import Wording, read_wordings
from weft.text import MASK, SOS, SPECIALS, UNK, TextConfig, Tokenizer
from weft.text.pieces import TextPieces

TEXTS = ["the cat (a cat) sleeps, the dog runs!", "Das Mädchen läuft – nach Hause.", "cats concatenate"] * 3
KINDS = ["char", "word", "bpe", "unigram"]


@cache
def tokenizer(kind: str) -> Tokenizer:
    return Tokenizer.learn(TEXTS, TextConfig(kind=kind, size=300, min_count=1))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(deadline=None, max_examples=60)
def test_pieces_of_any_tokens_make_their_text(kind: str, data: st.DataObject) -> None:
    """Any tokens at all, bytes that are no characters among them, and in any portions."""
    own = tokenizer(kind)
    portions = data.draw(st.lists(st.lists(st.integers(0, len(own) - 1), max_size=3), max_size=12))
    pieces = TextPieces(own)
    found = [pieces.add(portion) for portion in portions] + [pieces.finish()]
    assert "".join(found) == own.decode([token for portion in portions for token in portion])


@pytest.mark.parametrize("kind", ["char", "bpe", "unigram"])
@given(text=st.lists(st.text(max_size=5) | st.sampled_from([*SPECIALS, "<eo", "s>"]), max_size=6).map("".join))
@settings(deadline=None, max_examples=60)
def test_a_character_comes_whole(kind: str, text: str) -> None:
    own = tokenizer(kind)
    pieces = TextPieces(own)
    ids = own.encode(text)
    found = [pieces.add([token]) for token in ids] + [pieces.finish()]
    assert "".join(found) == own.decode(ids) == text
    if "\N{REPLACEMENT CHARACTER}" not in text:
        assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in found)


def test_letters_come_as_soon_as_they_are_there() -> None:
    own = tokenizer("char")
    pieces = TextPieces(own)
    assert [pieces.add([token]) for token in own.encode("cat")] == ["c", "a", "t"]
    euro = own.encode("€")
    assert len(euro) == 3
    assert [pieces.add([token]) for token in (*euro, *own.encode("a"))] == ["", "", "", "€a"]


@pytest.mark.parametrize("kind", ["bpe", "unigram", "char"])
def test_a_required_word_stands_apart_or_at_the_beginning(kind: str) -> None:
    own = tokenizer(kind)
    (ways,) = Wording(require=("cat",)).constraint(own).require
    assert ways == (tuple(own.encode(" cat")), (SOS, *own.encode("cat")))


def test_scripts_without_blanks_need_none() -> None:
    own = tokenizer("bpe")
    (ways,) = Wording(require=("猫",)).constraint(own).require
    assert ways == (tuple(own.encode("猫")), tuple(own.encode(" 猫")))


def test_a_forbidden_word_is_so_in_both_its_forms() -> None:
    own = tokenizer("bpe")
    assert Wording(forbid=("cat",)).constraint(own).forbid == (tuple(own.encode("cat")), tuple(own.encode(" cat")))
    words = tokenizer("word")
    assert Wording(forbid=("the cat", "zebra")).constraint(words).forbid == (tuple(words.encode("the cat")),)
    assert Wording(forbid_unknown=True).constraint(words).forbid == ((UNK,),), "what stands for zebras"


def test_what_is_both_required_and_forbidden_is_refused() -> None:
    words = tokenizer("word")
    with pytest.raises(ConfigError, match='require: "the cat" cannot be written where "cat" is forbidden'):
        Wording(forbid=("dog", "cat"), require=("the cat",)).constraint(words)
    Wording(forbid=("the cat",), require=("cat",)).constraint(words)  # a cat without the article


@pytest.mark.parametrize("kind", KINDS)
def test_the_unknown_token_is_forbidden_by_name_only_where_the_name_means_it(kind: str) -> None:
    cut: dict[str, Any] = {"punctuation": "keep"} if kind == "word" else {}
    plain = Tokenizer.learn(["a <unk> <eos>"], TextConfig(kind=kind, **cut))
    for text in ("<unk>", "<eos>"):
        ways = Wording(forbid=(text,)).constraint(plain).forbid
        assert tuple(plain.encode(text)) in ways
        assert all(min(way) > MASK for way in ways), "text is text"
        assert Wording(require=(text,)).constraint(plain).require[0]
        assert Wording(prefix=text).beginning(plain) == plain.encode(text)
    means = Tokenizer.learn(["a <unk> <eos>"], TextConfig(kind=kind, unknown="<unk>"))
    assert Wording(forbid=("<unk>",)).constraint(means).forbid == ((UNK,),)
    assert read_wordings(1, forbid=(), require=(), forbid_unknown=True) == [Wording(forbid_unknown=True)]


def test_words_for_all_texts_or_for_each() -> None:
    both = Wording(forbid=("a", "b c"))
    assert read_wordings(2, forbid=["a", " b c "], require=()) == [both, both]
    assert read_wordings(1, forbid="a b", require="c") == [Wording(("a b",), ("c",))]
    own = read_wordings(2, forbid=(), require=[["a"], []])
    assert own == [Wording(require=("a",)), Wording()]
    assert read_wordings(3, forbid=(), require=[]) is None


@pytest.mark.parametrize(
    ("forbid", "message"),
    [
        ([["a"]], "forbid: 1 list for 2 texts .one for each text."),
        (["a", ["b"]], "forbid: has words beside lists of words"),
        (["a", " "], "forbid: an empty word"),
    ],
    ids=str,
)
def test_mistakes_are_named(forbid: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read_wordings(2, forbid=forbid, require=())


def test_what_has_no_token_cannot_be_required() -> None:
    with pytest.raises(ConfigError, match='require: "zebra" is not in the vocabulary'):
        Wording(require=("zebra",)).constraint(tokenizer("word"))
