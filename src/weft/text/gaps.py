"""Texts with gaps: <mask> or [MASK] stands for one token that is to be found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import MASK

GAP: Final = re.compile(r"<mask>|\[MASK\]")
"""The spellings of a gap in a text to be filled."""

BLANK_IN_TOKEN: Final = ("bpe", "unigram", "imported")
"""The kinds of tokens that have the blank before a word in them, so that a gap has it too."""


def fill_text(tokenizer: Tokenizer, text: str, fillers: Sequence[int]) -> str:
    """The text as it is written, with a token in each gap."""
    filled, *parts = GAP.split(text)
    for piece, part in zip(tokenizer.pieces(fillers), parts, strict=True):
        if tokenizer.kind in BLANK_IN_TOKEN:
            filled = filled.rstrip(" ")
        said = piece.replace("▁", " ")
        filled += (said if filled else said.lstrip(" ")) + part
    return filled


def encode_gaps(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text in which <mask> or [MASK] stands for one token that is to be found."""
    ids: list[int] = []
    parts = GAP.split(text)
    for number, part in enumerate(parts):
        if number:
            ids.append(MASK)
        if tokenizer.kind in BLANK_IN_TOKEN and number < len(parts) - 1:
            part = part.rstrip(" ")
        if part:
            ids += tokenizer.encode(part)
    return ids
