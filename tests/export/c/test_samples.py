"""The inputs by which an exported program is compared with its run."""

from __future__ import annotations

import random

import pytest

from weft.export.c.samples import text_of
from weft.text import SPECIALS, TextConfig, Tokenizer


@pytest.mark.parametrize("kind", ["char", "bpe"])
def test_no_sample_has_a_byte_that_the_program_refuses(kind: str) -> None:
    """The vocabulary has all bytes, also that of NUL, which no line of text may have."""
    tokenizer = Tokenizer.learn(["the cat", "a dog runs"], TextConfig.model_validate({"kind": kind}))
    assert any("\0" in tokenizer.decode([index]) for index in range(len(SPECIALS), len(tokenizer)))
    draw = random.Random(0)
    texts = [text_of(tokenizer, draw, 20) for _ in range(200)]
    assert any(texts)
    assert not any("\0" in text for text in texts)
