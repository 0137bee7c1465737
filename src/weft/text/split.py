"""The words of a sentence to tag: a text split into words, and words cut into the subwords of an imported tokenizer."""

from __future__ import annotations

import string
from collections.abc import Sequence
from itertools import accumulate
from typing import Final

from weft.text.frames import frame_of
from weft.text.tokenizer import Tokenizer
from weft.text.vocabulary import UNK

PUNCTUATION: Final = string.punctuation + "“”‘’«»…—–¿¡。、，"


def split_text(text: str, known: Tokenizer | None) -> list[str]:
    """Split at blanks and cut off punctuation, except from words of a vocabulary of words, such as "U.S."."""
    words: list[str] = []
    for word in text.split():
        core = word.strip(PUNCTUATION)
        if not core or (known is not None and known.encode_words([word]) != [UNK]):
            words.append(word)
            continue
        start = word.index(core)
        words += [*word[:start], core, *word[start + len(core) :]]
    return words


def cut_words(tokenizer: Tokenizer, words: Sequence[str]) -> dict[str, list[int]]:
    """Columns of a sentence: its subwords with special tokens around them, the place of the first one of each word, and
    the id of that."""
    frame, cut = frame_of(tokenizer.config), tokenizer.encode_split(words)
    subwords = frame.around([index for pieces in cut for index in pieces])
    first = [*accumulate([len(frame.start), *map(len, cut)])][:-1]
    return {"subwords": subwords, "first": first, "words": [pieces[0] for pieces in cut]}
