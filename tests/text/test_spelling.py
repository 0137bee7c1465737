"""The bytes that tokens add one by one are those of the text that they are decoded to."""

from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest

from weft.text import EOS, PAD, SOS, TextConfig, Tokenizer
from weft.text.spelling import TokenSpelling, spelling_of

TEXTS = [
    "¿Qué (tal), señor? “Bien” … 3.5% [yes] y «no».",
    "naïve café\tin two lines\nof text",
    "日本語 and \\<eos> too",
]
CONFIGS: list[dict[str, Any]] = [
    {"kind": "char", "size": 290},
    {"kind": "bpe", "size": 300},
    {"kind": "unigram", "size": 300},
    {"kind": "word", "min_count": 1},
    {"kind": "word", "min_count": 1, "punctuation": "keep"},
    {"kind": "word", "min_count": 1, "unknown": "(?"},
    {"kind": "bpe", "size": 300, "unknown": "é?"},
]


@cache
def built(number: int) -> tuple[Tokenizer, TokenSpelling]:
    tokenizer = Tokenizer.learn(TEXTS, TextConfig(**CONFIGS[number]))
    return tokenizer, spelling_of(tokenizer)


@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_tokens_one_by_one_spell_the_decoded_text(number: int) -> None:
    tokenizer, spelling = built(number)
    draw = random.Random(number)
    for _ in range(300):
        tokens = [draw.randrange(len(tokenizer)) for _ in range(draw.randint(0, 12))]
        size = draw.randint(0, len(tokens))
        whole = spelling.spell(tokens[:size]) + spelling.spell(tokens[size:], tokens[:size])
        if b"\xef\xbf\xbd" in tokenizer.decode(tokens).encode():
            continue  # bytes that are no character are shown by another one
        assert whole.decode() == tokenizer.decode(tokens)


def test_silent_tokens_add_nothing() -> None:
    for number in range(len(CONFIGS)):
        tokenizer, spelling = built(number)
        (first, *_) = tokenizer.encode("señor")
        assert spelling.spell([SOS, first, PAD, EOS, first]) == spelling.spell([first, first])
