"""Subwords: what they are learned from, and that the unigram trainer's chances leave no trace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import ConfigError
from weft.text import TextConfig, Tokenizer, sample

LAW = settings(deadline=None, max_examples=30)

CORPUS = [f"the {word} of the {word}s, unbelievably {word}ly" for word in ("cat", "dog", "house", "sun", "river")] * 4


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_frequent_words_become_one_token_and_rare_ones_several(kind: str) -> None:
    tokenizer = Tokenizer.learn(CORPUS, TextConfig(kind=kind, size=330))
    assert len(tokenizer.encode(" the")) == 1
    assert len(tokenizer.encode(" xylophone")) > 1
    assert len(tokenizer.encode(CORPUS[0])) < len(CORPUS[0]) / 2


@pytest.mark.covers("T1")
def test_unigram_learns_whole_words_and_endings() -> None:
    # Neither "river" nor "unbelievably" begins another word, and "ably" is only ever an ending.
    words = ["river", "unbelievably", "while"]
    corpus = [f"the {word} {word} and the {word}" for word in words] * 5
    tokenizer = Tokenizer.learn(corpus, TextConfig(kind="unigram", size=400))
    assert all(len(tokenizer.encode(f" {word}")) == 1 for word in words)


def test_unigram_is_about_as_short_as_bpe() -> None:
    bpe, unigram = (Tokenizer.learn(CORPUS, TextConfig(kind=kind, size=330)) for kind in ("bpe", "unigram"))
    assert sum(map(len, unigram.encode_many(CORPUS))) < 1.15 * sum(map(len, bpe.encode_many(CORPUS)))


def test_unigram_learns_nothing_from_words_below_the_minimum_count() -> None:
    corpus = [" while while while whilst whilst"]
    tokenizer = Tokenizer.learn(corpus, TextConfig(kind="unigram", min_count=3))
    assert not any("st" in token for token in tokenizer.tokens(range(5, len(tokenizer))))
    with pytest.raises(ConfigError, match=r"text\.min_count: 9 leaves no word"):
        Tokenizer.learn(corpus, TextConfig(kind="unigram", min_count=9))


@pytest.mark.parametrize("kind", ["bpe", "unigram"])
def test_only_the_sample_is_read(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = 0

    def endless() -> Iterator[str]:
        nonlocal read
        while True:
            read += 1
            yield "ab ab "

    monkeypatch.setattr(sample, "SAMPLE_CHARACTERS", 20)
    Tokenizer.learn(endless(), TextConfig(kind=kind))
    assert read == 4


def test_the_sample_ends_inside_the_last_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "SAMPLE_CHARACTERS", 5)
    assert list(sample.sample(["abc", "defg", "h"])) == ["abc", "de"]
    assert list(sample.sample(["abc", "de", "f"])) == ["abc", "de"]
    assert list(sample.sample(["abc"])) == ["abc"]


def test_characters_and_words_are_counted_beyond_the_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sample, "SAMPLE_CHARACTERS", 1)
    assert "zebra" in Tokenizer.learn(["a", "zebra"], TextConfig(kind="word")).tokens(range(7))
    assert len(Tokenizer.learn(["a", "zebra"], TextConfig(kind="char"))) == 261 + 5


@LAW
@given(
    corpus=st.lists(st.text(alphabet="ab é日", min_size=1, max_size=12), min_size=1, max_size=6),
    size=st.sampled_from([261, 263, 266, 300]),
)
def test_unigram_is_settled_on_small_and_symmetric_corpora(corpus: list[str], size: int) -> None:
    config = TextConfig(kind="unigram", size=size)
    first, second = (Tokenizer.learn(corpus, config) for _ in range(2))
    assert first.tokens(range(len(first))) == second.tokens(range(len(second)))
    assert first.encode_many(corpus) == second.encode_many(corpus)
    assert [first.decode(ids) for ids in first.encode_many(corpus)] == corpus


@LAW
@given(text=st.text(alphabet="ab \n", max_size=30), long=st.integers(0, 1000))
def test_long_runs_are_cut_and_nothing_is_lost(text: str, long: int) -> None:
    whole = text + "x" * long + text
    parts = list(sample.short_runs(whole))
    assert "".join(parts) == whole
    assert all(parts)
    assert max((len(word) for part in parts for word in part.split()), default=0) <= 200 + len(text)
