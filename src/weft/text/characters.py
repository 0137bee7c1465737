"""A vocabulary of characters: one token per code point, and bytes for characters that are not in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from tokenizers import models

from weft.text.config import TextConfig
from weft.text.pipeline import byte_tokens, character_model
from weft.text.sample import plain
from weft.text.vocabulary import SPECIALS, rank


def learn_characters(texts: Iterable[str], config: TextConfig) -> models.BPE:
    """Count every character of every text and keep the most frequent."""
    counts: Counter[str] = Counter()
    for stretch in plain(texts, config):
        counts.update(stretch)
    fixed = byte_tokens()
    capacity = config.size - len(SPECIALS) - len(fixed)
    return character_model([*fixed, *rank(counts, capacity=capacity, min_count=config.min_count)])
