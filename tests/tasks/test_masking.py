"""What is hidden from a masked language model: which tokens, how many, and by what they are replaced."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from weft.tasks.masking import Chance, MaskConfig, Masking, begins_word
from weft.text import EOS, MASK, SPECIALS, TextConfig, Tokenizer

WORDS = Tokenizer.learn(["a b c d e f g h i j k l m n o p q r s t"], TextConfig(kind="word", min_count=1))
TEXT = "unbelievable things happen believably often"
SUBWORDS = Tokenizer.learn([TEXT] * 3, TextConfig(kind="bpe", size=275))


def masked(rows, chance=Chance(), tokenizer=WORDS, **settings):
    """The rows as they are read, and which tokens were chosen, as lists."""
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    flat = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows])
    found = Masking(MaskConfig(**settings), tokenizer)(flat, lengths, np.arange(len(rows)), chance)
    ends = np.cumsum(lengths)[:-1]
    return [part.tolist() for part in np.split(found.read, ends)], [
        part.tolist() for part in np.split(found.chosen, ends)
    ]


def texts(count, length, *, tokenizer=WORDS, seed=0):
    draw = np.random.default_rng(seed)
    return [[*draw.integers(len(SPECIALS), len(tokenizer), length).tolist(), EOS] for _ in range(count)]


@given(
    st.lists(st.lists(st.integers(1, 20), max_size=12), min_size=1, max_size=6),
    st.sampled_from([0.05, 0.15, 0.5]),
    st.sampled_from([1.0, 3.0]),
)
def test_every_row_with_a_real_token_has_a_chosen_one_and_no_special_token_is_chosen(rows, share, span):
    rows = [[*(token for token in row if token not in (2, 3, 4)), EOS] for row in rows]
    read, chosen = masked(rows, share=share, span=span)
    for row, seen, flags in zip(rows, read, chosen, strict=True):
        assert any(flags) == (len(row) > 1)
        assert not flags[-1]
        assert all(a == b for a, b, flag in zip(row, seen, flags, strict=True) if not flag)


@pytest.mark.parametrize("span", [1.0, 3.0])
def test_the_share_is_exact_on_average(span):
    _, chosen = masked(texts(400, 200), share=0.15, span=span)
    assert np.mean([sum(flags) for flags in chosen]) == pytest.approx(30, abs=0.4)


def test_eight_of_ten_chosen_tokens_become_the_mask_one_another_token_and_one_stays():
    rows = texts(2000, 30)
    read, chosen = masked(rows)
    pairs = [
        pair
        for row, seen, flags in zip(rows, read, chosen, strict=True)
        for *pair, flag in zip(row, seen, flags, strict=True)
        if flag
    ]
    hidden = np.mean([seen == MASK for _, seen in pairs])
    kept = np.mean([token == seen for token, seen in pairs])
    assert (hidden, kept) == (pytest.approx(0.8, abs=0.02), pytest.approx(0.1 + 0.1 / 20, abs=0.02))
    others = {seen for token, seen in pairs if seen not in (MASK, token)}
    assert others == set(range(len(SPECIALS), len(WORDS))), "any token but the special ones"


def test_masks_depend_on_seed_epoch_and_row_and_not_on_the_batch():
    rows = texts(6, 30)
    together = masked(rows)
    masking, config = Masking(MaskConfig(), WORDS), np.array([3])
    alone = masking(np.array(rows[3]), np.array([31]), config, Chance())
    assert (alone.read.tolist(), alone.chosen.tolist()) == (together[0][3], together[1][3])
    assert masked(rows) == together
    for other in (Chance(epoch=1), Chance(seed=1)):
        assert all(a != b for a, b in zip(masked(rows, other)[1], together[1], strict=True))
    assert len({str(flags) for flags in masked([rows[0]] * 5)[1]}) == 5


def test_whole_words_are_hidden_together():
    rows = [[*SUBWORDS.encode(TEXT), EOS] for _ in range(50)]
    begins = begins_word(SUBWORDS)
    for flags in masked(rows, unit="word", share=0.3, tokenizer=SUBWORDS)[1]:
        for place in range(1, len(flags) - 1):
            if not begins[rows[0][place]]:
                assert flags[place] == flags[place - 1]
    by_token = masked(rows, share=0.3, tokenizer=SUBWORDS)[1]
    assert any(
        a != b
        for flags in by_token
        for a, b, token in zip(flags, flags[1:], rows[0][1:], strict=False)
        if not begins[token]
    )


def test_spans_have_the_mean_length_of_the_setting():
    def runs(span):
        found = []
        for flags in masked(texts(400, 200), share=0.05, span=span)[1]:
            cuts = np.flatnonzero(np.diff([0, *map(int, flags), 0]))
            found += (cuts[1::2] - cuts[::2]).tolist()
        return np.mean(found)

    assert runs(1.0) < 1.1
    assert 2.6 < runs(3.0) < 3.5


def test_shares_of_more_than_all_chosen_tokens_are_refused():
    with pytest.raises(ValueError, match=r"random = 0\.6 and keep = 0\.5 are more than all"):
        MaskConfig(random=0.6, keep=0.5)
