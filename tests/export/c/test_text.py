"""The C of texts gives the ids and the texts of the tokenizers, whatever is in a text."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.export.c.c_text import CText
from tests.export.c.vocabularies import CONFIGS, imported, learned, wordpiece

from weft.errors import ConfigError
from weft.export.c.text_tables import text_tables
from weft.export.c.unicode_tables import PATTERNS, class_table, lower_case
from weft.text import EOS, PAD, SOS, UNK, TextConfig, Tokenizer
from weft.text.pipeline import assemble, bpe_model, byte_letters
from weft.text.spelling import spelling_of
from weft.text.split import split_text
from weft.text.vocabulary import number

Open = Callable[[bytes], CText]

LAW = settings(deadline=None, max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])

HARD = (
    *"  \t\n\r\0.,'-’<>\\(\"«»)İΣςſKßẞ\x1c\x85\u00a0\u3000\u0301\u200d\u200c\ufeff\ufdd0\ue000\U0010ffffǅⅧⒶ٣½_аЯ中한😀",
    *("\r\n", "<eos>", " <eos> ", " \\<eos>", "<0x41>", " <unk> ", " (tal), ", " STRASSE ", " STRAßE ", "Straẞe "),
    *(" don't", "'ll", "'re", "'S", "日本", "of text", " the", "quick", "est", "3.14", "1,0", "  ", "e\u0301", "kSk"),
)
"""What tokenizers are likely to read wrongly."""

ANY = st.text(st.characters(codec="utf-8"), max_size=40)
HARD_TEXTS = st.lists(st.sampled_from(HARD) | st.characters(codec="utf-8"), max_size=20).map("".join)


@cache
def tables(config: int) -> bytes:
    return text_tables(learned(config), sentences=learned(config).kind == "word")


@pytest.fixture(params=range(len(CONFIGS)), ids=[repr(config)[11:-1] for config in CONFIGS])
def both(request: pytest.FixtureRequest, open_text: Open) -> tuple[Tokenizer, CText]:
    return learned(request.param), open_text(tables(request.param))


@LAW
@given(config=st.integers(0, len(CONFIGS) - 1), text=HARD_TEXTS | ANY)
def test_ids_are_those_of_the_tokenizer(open_text: Open, config: int, text: str) -> None:
    tokenizer, c = learned(config), open_text(tables(config))
    ids = tokenizer.encode(text)
    assert c.encode(text) == ids
    assert c.decode(ids) == tokenizer.decode(ids)


@LAW
@given(config=st.integers(0, len(CONFIGS) - 1), data=st.data())
def test_any_ids_are_decoded_alike_at_once_and_in_pieces(open_text: Open, config: int, data: st.DataObject) -> None:
    tokenizer, c = learned(config), open_text(tables(config))
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=30))
    text = tokenizer.decode(ids)
    assert c.decode(ids) == text
    sizes = sorted(data.draw(st.lists(st.integers(0, len(ids)), max_size=5)))
    assert "".join(c.pieces(ids, sizes)) == text


@cache
def characters() -> list[str]:
    """All characters in use by most people, all at the edges of classes, and some of the others."""
    edges = (np.concatenate([starts, starts - 1]) for starts in [class_table(PATTERNS)[0][1:]])
    some = {*range(0x3000), *np.concatenate([*edges]).tolist(), *random.Random(0).choices(range(0x110000), k=5000)}
    some |= {
        lower for row in (*lower_case().ranges, *lower_case().expansions) for lower in (row[0], row[0] + 1, row[1])
    }
    return [chr(code) for code in sorted(some) if not 0xD800 <= code < 0xE000]


@pytest.mark.parametrize("lowercase", [False, True])
def test_every_character_is_read_alike(open_text: Open, lowercase: bool) -> None:
    text = "".join(f"a{one}.1 " for one in characters())
    words = TextConfig(kind="word", min_count=1, size=100_000, lowercase=lowercase)
    tokenizer = Tokenizer.learn([text[::2], text], words)
    assert open_text(text_tables(tokenizer)).encode(text) == tokenizer.encode(text)
    # A letter, a digit, a point and a blank merge with the first byte of what follows, if that is not cut off.
    letters = byte_letters()
    merges = [(left, right) for left in "a1.Ġ" for right in letters]
    entries = [*letters, *(left + right for left, right in merges)]
    subwords = TextConfig(kind="bpe", lowercase=lowercase)
    tokenizer = Tokenizer(assemble(bpe_model(number(entries), merges), subwords), subwords)
    text = "".join(f"a{one}1{one}.{one} {one}" for one in characters())
    assert open_text(text_tables(tokenizer)).encode(text) == tokenizer.encode(text)


def test_every_given_character_is_spelled_alike(open_text: Open) -> None:
    known = TextConfig(kind="word", size=100_000, lowercase=True)
    tokenizer = Tokenizer.learn_words([characters()[::2]], known)
    c = open_text(text_tables(tokenizer, sentences=True))
    assert [c.word(character) for character in characters()] == tokenizer.encode_words(characters())
    text = "".join(f"a{one}b{one} " for one in characters())
    assert c.split(text) == split_text(text, tokenizer)


def test_random_texts_and_ids(both: tuple[Tokenizer, CText]) -> None:
    tokenizer, c = both
    draw = random.Random(0)
    pool = [*HARD * 4, *(chr(draw.choice([draw.randrange(0xD800), draw.randrange(0xE000, 0x110000)])) for _ in HARD)]
    for _ in range(400):
        text = "".join(draw.choices(pool, k=draw.randrange(20)))
        assert c.encode(text) == tokenizer.encode(text)
        ids = draw.choices(range(len(tokenizer)), k=draw.randrange(12))
        assert c.decode(ids) == tokenizer.decode(ids)


@pytest.mark.parametrize("size", [1, 7, 100, 20_000])
def test_long_words_and_blanks(both: tuple[Tokenizer, CText], size: int) -> None:
    tokenizer, c = both
    for text in ("a" * size, "quick" * size, " " * size, "\n" * size + "x", "é" * size, "." * size, "😀" * size):
        assert c.encode(text) == tokenizer.encode(text)


WORDS = [["the", "The", "<eos>", "\\<eos>", "a .", " (", "( x", ") ", "", "U.S.", "İ", "Σ", "don't", "\0"]] * 2


@pytest.mark.parametrize(
    "more",
    [{}, {"lowercase": True}, {"punctuation": "keep"}, {"unknown": "The"}, {"unknown": "The", "lowercase": True}],
)
@settings(LAW, max_examples=20)
@given(data=st.data())
def test_given_words(open_text: Open, more: dict[str, Any], data: st.DataObject) -> None:
    tokenizer = Tokenizer.learn_words(WORDS, TextConfig(kind="word", **more))
    c = open_text(text_tables(tokenizer))
    words = data.draw(st.lists(st.sampled_from([*WORDS[0], "THE", "<EOS>", "new", "<unk>"]) | ANY, max_size=8))
    ids = tokenizer.encode_words(words)
    assert [c.word(word) for word in words] == ids
    drawn = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=12))
    assert c.decode(drawn) == tokenizer.decode(drawn)
    copied = {place: word for place, word in enumerate(words) if ids[place] == UNK}
    assert "".join(c.pieces(ids, [len(ids) // 2], copied)) == tokenizer.decode(ids, copied=copied)


@LAW
@given(text=HARD_TEXTS | ANY)
def test_sentences_are_split_alike(open_text: Open, text: str) -> None:
    tokenizer = Tokenizer.learn_words([["U.S.", "(x)", "the", "..."]], TextConfig(kind="word", lowercase=True))
    c = open_text(text_tables(tokenizer, sentences=True))
    for sentence in (text, f"{text} U.S., u.s. (the) “(x)” ...!", f"({text})"):
        assert c.split(sentence) == split_text(sentence, tokenizer)


def test_tokens_spell_what_they_add(both: tuple[Tokenizer, CText]) -> None:
    tokenizer, c = both
    spelling, draw = spelling_of(tokenizer), random.Random(1)
    for _ in range(200):
        ids = draw.choices(range(len(tokenizer)), k=draw.randrange(10))
        assert c.spell(ids) == spelling.spell(ids)


def test_silent_tokens_end_no_character(open_text: Open) -> None:
    config = 0
    tokenizer, c = learned(config), open_text(tables(config))
    first, second = tokenizer.encode("ж")
    ids = [PAD, first, SOS, second, EOS, first]
    assert c.decode(ids) == tokenizer.decode(ids)
    assert c.pieces([first, second, 1], [1, 2]) == ["", "", "ж<unk>"]


def test_pieces_come_when_they_are_certain(open_text: Open) -> None:
    tokenizer, c = learned(8), open_text(tables(8))
    assert tokenizer.config == TextConfig(kind="word")
    ids = tokenizer.encode("the fox, (tal) fox")
    assert c.pieces(ids, [1, 2, 3, 4, 5, 6]) == ["the", " fox", ",", " (", "tal", ")", " fox"]


def test_a_text_that_is_not_utf8_is_refused(both: tuple[Tokenizer, CText]) -> None:
    _, c = both
    for broken in (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98", b"\x80"):
        assert c.encode(b"a " + broken) == -2
        assert c.encode(broken + b" a") == -2


@pytest.mark.parametrize("rules", [{}, {"add_prefix_space": True}, {"ignore_merges": True}], ids=str)
def test_imported_byte_pairs(open_text: Open, rules: dict[str, Any]) -> None:
    tokenizer = imported(**rules)
    c, draw = open_text(text_tables(tokenizer)), random.Random(2)
    for _ in range(600):
        text = "".join(draw.choices([*HARD, "<|endoftext|>"], k=draw.randrange(12)))
        assert c.encode(text) == tokenizer.encode(text)
        ids = draw.choices(range(len(tokenizer)), k=draw.randrange(12))
        assert c.decode(ids) == tokenizer.decode(ids)


def test_an_imported_tokenizer_with_other_rules_is_refused_in_one_line() -> None:
    said = r'text\.kind = "imported": its BPE tokenizer has no C: only byte-level BPE of GPT-2 and WordPiece'
    with pytest.raises(ConfigError, match=said):
        text_tables(imported(normalizer=[{"type": "NFC"}]))


@pytest.mark.parametrize(
    "rules",
    [{}, {"lowercase": False}, {"lowercase": False, "strip_accents": True, "handle_chinese_chars": False}],
    ids=str,
)
def test_imported_wordpieces(open_text: Open, rules: dict[str, Any]) -> None:
    tokenizer = wordpiece(**rules)
    c, draw = open_text(text_tables(tokenizer)), random.Random(3)
    hard = [
        *HARD,
        *tokenizer.tokens(range(len(tokenizer))),
        "unknown",
        "quicks",
        "thing",
        "abc" * 9,
        "한글 한",
        "a" * 20,
        "a" * 21,
    ]
    for _ in range(1000):
        text = "".join(draw.choices(hard, k=draw.randrange(12)))
        assert c.encode(text) == tokenizer.encode(text)
        ids = draw.choices(range(len(tokenizer)), k=draw.randrange(12))
        assert c.decode(ids) == tokenizer.decode(ids)
    for text in ("".join(f"a{one}a {one} " for one in characters()), "".join(f"{one}\u0301" for one in characters())):
        assert c.encode(text) == tokenizer.encode(text)
