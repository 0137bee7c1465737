"""Sums and differences of words, as in king - man + woman."""

from __future__ import annotations

import re


def read_terms(text: str) -> list[tuple[int, str]]:
    """Return the words of "a - b + c", each with its sign."""
    terms, sign = list[tuple[int, str]](), 1
    for part in text.split():
        if re.fullmatch(r"[+-]", part):
            sign = -1 if part == "-" else 1
        else:
            terms.append((sign, part))
            sign = 1
    return terms
