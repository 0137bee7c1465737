"""Sums and differences of words, as in king - man + woman."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

_ENDS: Final = re.compile(r"^\W+|\W+$")


def read_terms(text: str, known: Callable[[str], bool]) -> list[tuple[int, str]]:
    """Return the words of "a - b + c", each with its sign. A word that is not known has no punctuation at its ends
    where it is known without: of "The cat sleeps." the last is sleeps."""
    terms, sign = list[tuple[int, str]](), 1
    for part in text.split():
        if re.fullmatch(r"[+-]", part):
            sign = -1 if part == "-" else 1
        else:
            bare = part if known(part) else _ENDS.sub("", part)
            terms.append((sign, bare if bare and known(bare) else part))
            sign = 1
    return terms
