"""A vocabulary of characters: one token per code point, and bytes for characters that are not in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np
from tokenizers import models

from weft.text.pipeline import byte_tokens, character_model
from weft.text.rules import TextRules
from weft.text.sample import plain
from weft.text.vocabulary import SPECIALS, rank


def learn_characters(texts: Iterable[str], config: TextRules) -> models.BPE:
    """Count every character of every text and keep the most frequent."""
    counts: Counter[str] = Counter()
    for stretch in plain(texts, config):
        counts.update(stretch)
    fixed = byte_tokens()
    capacity = config.size - len(SPECIALS) - len(fixed)
    return character_model([*fixed, *rank(counts, capacity=capacity, min_count=config.min_count)])


class CharacterIds:
    """Looks up the characters of a text in a table, which is several times as fast as the library."""

    def __init__(self, ids: Mapping[str, int], *, lowercase: bool) -> None:
        characters = {ord(entry): number for entry, number in ids.items() if len(entry) == 1}
        self.table = np.full(max(characters, default=0) + 2, -1, dtype=np.int32)  # the last is for all beyond it
        self.table[list(characters)] = list(characters.values())
        self.lowercase = lowercase

    def encode(self, text: str) -> list[int] | None:
        """The ids of a text; None where it needs the library: bytes of unknown characters, lower case of others than
        ASCII."""
        if self.lowercase:
            if not text.isascii():
                return None
            text = text.lower()
        try:
            codes = np.frombuffer(text.encode("utf-32-le"), dtype=np.uint32)
        except UnicodeEncodeError:  # the library says what is wrong
            return None
        ids = self.table[np.minimum(codes, len(self.table) - 1)]
        return None if len(ids) and ids.min() < 0 else ids.tolist()
