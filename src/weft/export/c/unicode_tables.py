"""Classes and lower case of all characters, as the `tokenizers` library sees them, in compact form for C.

They are read from the library itself, because its Unicode version is not that of Python.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import Regex, normalizers, pre_tokenizers

from weft.text.split import PUNCTUATION as AROUND_WORDS

LETTER, NUMBER, SPACE, IN_WORD, OPENING, CLOSING, BLANK, PUNCTUATION, DELETED, SPACED = (1 << bit for bit in range(10))
"""Bits of classes, as in text_classes.c."""

PATTERNS: Final[Mapping[int, str]] = {
    LETTER: r"[\p{L}]",
    NUMBER: r"[\p{N}]",
    SPACE: r"[\s]",
    IN_WORD: r"[\p{L}\p{M}\p{N}_]",
    OPENING: r"[\p{Ps}\p{Pi}¿¡]",
    CLOSING: r"[\p{Pe}\p{Pf}.,;:!?…%]",
}
"""The pattern of each class that the library decides; BLANK and PUNCTUATION are decided by Python."""

CODE_POINTS: Final = 0x110000
SURROGATES: Final = range(0xD800, 0xE000)
_MARK: Final = "\ufdd0"


class LowerCase(NamedTuple):
    """Ranges (first, last, step, difference), and characters whose lower case is up to three others."""

    ranges: list[tuple[int, int, int, int]]
    expansions: list[tuple[int, int, int, int]]


@cache
def _codes() -> NDArray[np.uint32]:
    """All code points that a text may have."""
    every = np.arange(CODE_POINTS, dtype=np.uint32)
    return np.concatenate([every[: SURROGATES.start], every[SURROGATES.stop :]])


@cache
def _characters() -> str:
    return _codes().tobytes().decode(f"utf-32-{sys.byteorder[0]}e")


@cache
def members_of(bit: int) -> NDArray[np.bool_]:
    """For each code point whether it is in a class."""
    found = np.zeros(CODE_POINTS, dtype=np.bool_)
    if bit in (BLANK, PUNCTUATION):
        text = AROUND_WORDS if bit == PUNCTUATION else "".join(filter(str.isspace, _characters()))
        found[[ord(character) for character in text]] = True
        return found
    marked = normalizers.Replace(Regex(PATTERNS[bit]), _MARK).normalize_str(_characters())
    codes = np.frombuffer(marked.encode("utf-32-le"), dtype="<u4")
    found[_codes()] = (codes == ord(_MARK)) & (_codes() != ord(_MARK))
    return found


def class_table(
    bits: Iterable[int], own: Mapping[int, NDArray[np.bool_]] | None = None
) -> tuple[NDArray[np.uint32], NDArray[np.uint16], NDArray[np.uint16]]:
    """The first character and the bits of each range of equal characters, and the bits of the first 128 characters.
    `own` are classes of a tokenizer by their bits."""
    found = np.zeros(CODE_POINTS, dtype=np.uint16)
    for bit, members in [*((bit, members_of(bit)) for bit in bits), *(own or {}).items()]:
        found |= members.astype(np.uint16) * np.uint16(bit)
    starts = np.flatnonzero(np.concatenate([[True], found[1:] != found[:-1]]))
    return starts.astype(np.uint32), found[starts], found[:128]


@cache
def lower_case() -> LowerCase:
    """The lower case of all characters but ASCII; that of a character does not depend on its neighbours."""
    return compact(_changed())


def compact(changed: Iterable[tuple[int, str]]) -> LowerCase:
    """Characters with what each becomes, in the order of the characters."""
    single, expansions = list[tuple[int, int]](), list[tuple[int, int, int, int]]()
    for code, lower in changed:
        if len(lower) == 1:
            single.append((code, ord(lower)))
        else:
            first, second, third = (*map(ord, lower), 0)[:3]
            assert len(lower) <= 3, "no lower case has more characters"
            expansions.append((code, first, second, third))
    return LowerCase(_ranges(single), expansions)


def each_normalized(normalizer: normalizers.Normalizer) -> Iterator[tuple[int, str]]:
    """Each character with what a normalizer that reads characters one by one makes of it."""
    text = _characters()
    for begin in range(0, len(text), 4096):
        block = text[begin : begin + 4096].replace("|", "a")
        parts = normalizer.normalize_str("|".join(block)).split("|")
        yield from zip(map(ord, text[begin : begin + 4096]), parts, strict=True)


def cut_off(cut: pre_tokenizers.PreTokenizer) -> NDArray[np.bool_]:
    """For each code point whether a pre-tokenizer makes it a word of its own, even between letters."""
    found, text = np.zeros(CODE_POINTS, dtype=np.bool_), _characters()
    for begin in range(0, len(text), 4096):
        pieces = cut.pre_tokenize_str(f"x{'x'.join(text[begin : begin + 4096])}x")
        found[[ord(piece) for piece, _ in pieces if len(piece) == 1 and piece != "x"]] = True
    return found


def _changed() -> Iterator[tuple[int, str]]:
    lower, text = normalizers.Lowercase().normalize_str, _characters()
    for begin in range(128, len(text), 256):
        block = text[begin : begin + 256]
        if lower(block) != block:
            for character in block:
                if (changed := lower(character)) != character:
                    yield ord(character), changed


def _ranges(pairs: list[tuple[int, int]]) -> list[tuple[int, int, int, int]]:
    """Characters with the same difference to their lower case, in ranges of step 1 or 2."""
    ranges = list[tuple[int, int, int, int]]()
    for code, lower in pairs:
        if ranges:
            first, last, step, moved = ranges[-1]
            apart = code - last
            if moved == lower - code and (apart == step or (first == last and apart == 2)):
                ranges[-1] = first, code, apart, moved
                continue
        ranges.append((code, code, 1, lower - code))
    return ranges


def matches(pattern: re.Pattern[str]) -> list[int]:
    """The characters that a pattern of one character matches."""
    return [ord(character) for character in pattern.findall(_characters())]
