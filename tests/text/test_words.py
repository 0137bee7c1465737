"""Words: where text is cut, how it is joined again, and sentences that come already split."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import ConfigError, DataError
from weft.text import MASK, SPECIALS, UNK, TextConfig, Tokenizer

LAW = settings(deadline=None, max_examples=60)


def cut(text: str, **settings: object) -> list[str]:
    """The tokens of a text under a vocabulary that has all of them."""
    tokenizer = Tokenizer.learn([text], TextConfig.model_validate({"kind": "word", **settings}))
    return tokenizer.tokens(tokenizer.encode(text))


@pytest.mark.covers("T1")
@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("The cat sat.", ["The", "cat", "sat", "."]),
        (
            "Don't! A well-known (old) trick...",
            ["Don't", "!", "A", "well-known", "(", "old", ")", "trick", ".", ".", "."],
        ),
        ("3.14 of 1,000, end.Start", ["3.14", "of", "1,000", ",", "end", ".", "Start"]),
        ("'tis rock'n'roll -- \"yes\"", ["'", "tis", "rock'n'roll", "-", "-", '"', "yes", '"']),
        ("¿Qué?  e\u0301t\u00e9\n\tx_1", ["¿", "Qué", "?", "e\u0301t\u00e9", "x_1"]),
        ("می\u200cخواهم 😀😀", ["می\u200cخواهم", "😀", "😀"]),
    ],
)
def test_punctuation_is_split_off(text: str, tokens: list[str]) -> None:
    assert cut(text) == tokens


def test_punctuation_can_stay() -> None:
    assert cut("Don't stop, (now)! 3.14", punctuation="keep") == ["Don't", "stop,", "(now)!", "3.14"]


@pytest.mark.covers("T1")
def test_case_can_be_dropped() -> None:
    tokenizer = Tokenizer.learn(["The THE the ΟΔΟΣ"], TextConfig(kind="word", lowercase=True))
    assert tokenizer.encode("tHe ΟΔΟΣ οδοσ") == [5, 6, 6]


@pytest.mark.parametrize(
    "text",
    ["The cat sat.", "Wait, (no) [more]... 50%!", "“Yes”: a; b? ¿Qué? ¡No! «oui» {x}", "don't well-known 3.14"],
)
def test_common_punctuation_is_joined_as_it_was(text: str) -> None:
    tokenizer = Tokenizer.learn([text], TextConfig(kind="word"))
    assert tokenizer.decode(tokenizer.encode(text)) == text


def test_what_has_no_side_keeps_its_blanks() -> None:
    tokenizer = Tokenizer.learn(['a "b" - c'], TextConfig(kind="word"))
    assert tokenizer.decode(tokenizer.encode('a "b" - c.')) == 'a " b " - c <unk>'


@LAW
@given(text=st.text(alphabet="ab.,()!? '\"\n\té", max_size=30))
def test_kept_punctuation_comes_back_up_to_blanks(text: str) -> None:
    tokenizer = Tokenizer.learn([text + " a"], TextConfig(kind="word", punctuation="keep"))
    assert tokenizer.decode(tokenizer.encode(text)) == " ".join(text.split())


def test_unknown_words_are_unknown() -> None:
    tokenizer = Tokenizer.learn(["the cat"], TextConfig(kind="word"))
    assert tokenizer.encode("the dog, the Cat") == [6, UNK, UNK, 6, UNK]
    assert tokenizer.decode(tokenizer.encode("the dog")) == "the <unk>"


SENTENCES = [["e. g.", "the", "New York", "..."], ["the", "U.S.", "...", "<unk>"]]


def test_split_words_get_one_id_each() -> None:
    tokenizer = Tokenizer.learn_words(iter(SENTENCES), TextConfig(kind="word"))
    assert tokenizer.tokens(range(5, len(tokenizer))) == ["...", "the", "New York", "U.S.", r"\<unk>", "e. g."]
    assert tokenizer.encode_words(["e. g.", "the", "new york", "...", "<eos>", ""]) == [10, 6, UNK, 5, UNK, UNK]
    assert tokenizer.encode_words_many(SENTENCES) == [[10, 6, 7, 5], [6, 8, 5, 9]]
    assert tokenizer.decode(tokenizer.encode_words(["the", "<unk>"])) == "the <unk>"


def test_a_split_word_may_mean_unknown() -> None:
    tokenizer = Tokenizer.learn_words(iter(SENTENCES), TextConfig(kind="word", unknown="<unk>"))
    assert tokenizer.tokens(range(5, len(tokenizer))) == ["...", "the", "New York", "U.S.", "e. g."]
    assert tokenizer.encode_words(["the", "<unk>"]) == [6, UNK]


def test_split_words_honour_case_size_and_count() -> None:
    lower = Tokenizer.learn_words(SENTENCES, TextConfig(kind="word", lowercase=True))
    assert lower.encode_words(["THE", "new york"]) == lower.encode_words(["the", "New York"]) == [6, 9]
    small = Tokenizer.learn_words(SENTENCES, TextConfig(kind="word", size=6))
    assert small.encode_words(["...", "the"]) == [5, UNK]
    frequent = Tokenizer.learn_words(SENTENCES, TextConfig(kind="word", min_count=2))
    assert frequent.encode_words(["...", "the", "U.S."]) == [5, 6, UNK]


@LAW
@given(words=st.lists(st.text(max_size=5) | st.sampled_from([*SPECIALS, r"\<eos>", r"\\<eos>"]), max_size=10))
def test_there_are_as_many_ids_as_words(words: list[str]) -> None:
    tokenizer = Tokenizer.learn_words([["a", *words]], TextConfig(kind="word"))
    ids = tokenizer.encode_words(words)
    assert min(ids, default=MASK + 1) > MASK
    assert [tokenizer.decode([index]) for index in ids if tokenizer.token(index).strip()] == [
        w for w in words if w.strip()
    ]
    assert len(set(ids)) == len(set(words))


@LAW
@given(text=st.text(alphabet="ab.,!' ", max_size=40))
def test_running_text_and_its_split_words_give_the_same_vocabulary(text: str) -> None:
    config = TextConfig(kind="word", punctuation="keep")
    running = Tokenizer.learn([text + " a"], config)
    split = Tokenizer.learn_words([(text + " a").split()], config)
    assert running.tokens(range(len(running))) == split.tokens(range(len(split)))


def test_split_words_need_a_vocabulary_of_words() -> None:
    with pytest.raises(ConfigError, match=r'text\.kind: "bpe" does not give one token for each word'):
        Tokenizer.learn_words(SENTENCES, TextConfig(kind="bpe"))
    with pytest.raises(ConfigError, match=r"text\.kind"):
        Tokenizer.learn(["ab"], TextConfig(kind="char")).encode_words(["ab"])


@pytest.mark.parametrize("sentences", [[], [[]], [["<unk>"]]])
def test_no_words_are_an_error(sentences: list[list[str]]) -> None:
    with pytest.raises(DataError, match="no text to learn"):
        Tokenizer.learn_words(sentences, TextConfig(kind="word", unknown="<unk>"))
