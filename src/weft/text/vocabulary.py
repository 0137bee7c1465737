"""The special tokens, and which entries a vocabulary keeps.

Ids 0 to 4 belong to the special tokens in every vocabulary, so padding is always 0 and nothing has to look them up.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from weft.errors import DataError

PAD, UNK, SOS, EOS, MASK = 0, 1, 2, 3, 4
SPECIALS = ("<pad>", "<unk>", "<sos>", "<eos>", "<mask>")

_SPECIAL = re.compile("|".join(re.escape(token) for token in SPECIALS))


def rank(counts: Mapping[str, int], *, room: int, min_count: int) -> list[str]:
    """The `room` most frequent entries seen at least `min_count` times; equal counts stand in code point order."""
    kept = (entry for entry, count in counts.items() if count >= min_count and entry not in SPECIALS)
    return sorted(kept, key=lambda entry: (-counts[entry], entry))[:room]


def number(entries: Iterable[str]) -> dict[str, int]:
    """entry -> id, the special tokens first."""
    return {entry: index for index, entry in enumerate((*SPECIALS, *entries))}


def plain(texts: Iterable[str], normalize: Callable[[str], str]) -> Iterator[str]:
    """The stretches of text between special tokens; a corpus without any raises `DataError`.

    The trainers know nothing of special tokens: without this cut, "<unk>" in a corpus would be learned as
    "<", "unk" and ">".
    """
    empty = True
    for text in texts:
        for stretch in _SPECIAL.split(normalize(text)):
            if stretch:
                empty = False
                yield stretch
    if empty:
        raise nothing_to_learn()


def nothing_to_learn() -> DataError:
    return DataError("there is no text to learn a vocabulary from", cure="check that data.train is not empty")
