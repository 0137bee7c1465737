"""The shape of a word: capital letters, digits, hyphens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import torch
from torch import Tensor

UPPER, LETTER, DIGIT, HYPHEN, OTHER = range(5)
"""Classes of characters."""

LOWER, CAPITAL, CAPITALS, HYPHENATED, CAPITAL_HYPHENATED, NUMBER, CODE, SYMBOL = range(8)
"""Shapes of words: one with letters and digits is a code."""

SHAPES: Final = 8


def class_of(character: str) -> int:
    """The class of an entry of a vocabulary of characters; bytes of rarer characters are taken for letters."""
    if len(character) != 1:
        return LETTER
    if character.isalpha():
        return UPPER if character.isupper() or character.istitle() else LETTER
    return DIGIT if character.isdigit() else HYPHEN if character in "-‐‑–" else OTHER


def classes_of(characters: Iterable[str]) -> Tensor:
    """The classes of the entries of a vocabulary."""
    return torch.tensor([class_of(character) for character in characters])


def shapes_of(classes: Tensor, lengths: Tensor) -> Tensor:
    """classes (U, C) of the characters of words, lengths (U) -> the shape of each word (U)."""
    real = torch.arange(classes.size(1), device=classes.device) < lengths[:, None]

    def count(kind: int) -> Tensor:
        return ((classes == kind) & real).sum(1)

    upper, lower, digits, hyphens = map(count, (UPPER, LETTER, DIGIT, HYPHEN))
    first = (classes[:, 0] == UPPER) & (lengths > 0)
    letters = upper + lower
    shape = torch.where(first, CAPITAL, LOWER)
    shape = torch.where((upper > 1) & (lower == 0), CAPITALS, shape)
    shape = torch.where((hyphens > 0) & (letters > 0), torch.where(first, CAPITAL_HYPHENATED, HYPHENATED), shape)
    shape = torch.where(digits > 0, torch.where(letters > 0, CODE, NUMBER), shape)
    return torch.where((digits == 0) & (letters == 0), SYMBOL, shape)
