"""Which entries a vocabulary keeps: by frequency, with a size limit and a minimum count."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from weft.errors import ConfigError
from weft.text import SPECIALS, UNK, TextConfig, Tokenizer
from weft.text.vocabulary import number, rank

LAW = settings(deadline=None, max_examples=60)

COUNTS = st.dictionaries(st.text(alphabet="abcdé", min_size=1, max_size=3), st.integers(1, 5), max_size=20)


@LAW
@given(counts=COUNTS, capacity=st.integers(0, 25), min_count=st.integers(1, 6))
def test_rank_keeps_the_most_frequent(counts: dict[str, int], capacity: int, min_count: int) -> None:
    kept = rank(counts, capacity=capacity, min_count=min_count)
    left = counts.keys() - set(kept)
    assert len(kept) == min(capacity, sum(count >= min_count for count in counts.values()))
    assert all(counts[entry] >= min_count for entry in kept)
    assert all(counts[a] > counts[b] or (counts[a] == counts[b] and a < b) for a, b in pairwise(kept))
    assert not kept or all(counts[entry] < min_count or counts[entry] <= counts[kept[-1]] for entry in left)


@LAW
@given(counts=COUNTS)
def test_rank_does_not_depend_on_the_order_of_counting(counts: dict[str, int]) -> None:
    backwards = dict(reversed(counts.items()))
    assert rank(counts, capacity=7, min_count=1) == rank(backwards, capacity=7, min_count=1)


def test_number_puts_the_special_tokens_first() -> None:
    assert number(["b", "a"]) == {"<pad>": 0, "<unk>": 1, "<sos>": 2, "<eos>": 3, "<mask>": 4, "b": 5, "a": 6}


@pytest.mark.covers("T2")
def test_words_stand_by_frequency_and_ties_by_code_point() -> None:
    tokenizer = Tokenizer.learn(["c b a b", "B a b"], TextConfig(kind="word"))
    assert tokenizer.tokens(range(5, len(tokenizer))) == ["b", "a", "B", "c"]


@pytest.mark.covers("T2")
def test_words_over_the_size_or_under_the_count_are_unknown() -> None:
    corpus = ["a a a b b c"]
    limited = Tokenizer.learn(corpus, TextConfig(kind="word", size=len(SPECIALS) + 2))
    assert limited.encode("a b c") == [5, 6, UNK]
    counted = Tokenizer.learn(corpus, TextConfig(kind="word", min_count=3))
    assert counted.encode("a b c") == [5, UNK, UNK]


def test_a_count_that_no_word_reaches_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"text\.min_count: 4 leaves no word"):
        Tokenizer.learn(["a a a b b c"], TextConfig(kind="word", min_count=4))


def test_characters_stand_by_frequency_after_the_bytes() -> None:
    tokenizer = Tokenizer.learn(["aab", "ba c"], TextConfig(kind="char"))
    assert tokenizer.tokens([5, 5 + 0xE9, 260]) == ["<0x00>", "<0xE9>", "<0xFF>"]
    assert tokenizer.tokens(range(261, len(tokenizer))) == ["a", "b", " ", "c"]


def test_characters_over_the_size_or_under_the_count_fall_back_to_bytes() -> None:
    e_acute = [5 + 0xC3, 5 + 0xA9]
    limited = Tokenizer.learn(["aaé"], TextConfig(kind="char", size=262))
    assert limited.encode("aé") == [261, *e_acute]
    counted = Tokenizer.learn(["aaé"], TextConfig(kind="char", min_count=2))
    assert counted.encode("aé") == [261, *e_acute]
    assert Tokenizer.learn(["aaé"], TextConfig(kind="char")).encode("aé") == [261, 262]


@LAW
@given(text=st.text(min_size=1, max_size=30))
def test_a_seen_character_is_one_token(text: str) -> None:
    tokenizer = Tokenizer.learn([text], TextConfig(kind="char"))
    assert tokenizer.tokens(tokenizer.encode(text)) == list(text)
    assert len(tokenizer) == 261 + len(Counter(text))


@pytest.mark.covers("T1")
def test_bpe_merges_the_most_frequent_pair_first() -> None:
    # In "ab ab ab" the pair a-b stands three times, the pair blank-a twice.
    tokenizer = Tokenizer.learn(["ab ab ab"], TextConfig(kind="bpe", size=263))
    assert tokenizer.tokens([261, 262]) == ["ab", "Ġab"]
    assert tokenizer.encode("ab ab") == [261, 262]


def test_bpe_makes_no_merge_below_the_minimum_count() -> None:
    tokenizer = Tokenizer.learn(["ab ab ab"], TextConfig(kind="bpe", min_count=3))
    assert tokenizer.tokens(range(261, len(tokenizer))) == ["ab"]
