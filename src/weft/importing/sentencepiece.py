"""Models of SentencePiece (.spm, .model): pieces with scores and the normalisation of texts.

A file is a protocol buffer: fields, each a number with a wire type, then a varint, 4 or 8 bytes, or a length and bytes.

    model        1 piece (repeated)   2 trainer   3 normalizer
    piece        1 text   2 score   3 type          normal 1, unknown 2, control 3, user-defined 4, unused 5, byte 6
    trainer      3 type                             unigram 1, bpe 2, word 3, char 4
    normalizer   2 table of characters   3 a blank before the text   4 no blanks but single ones between words
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from weft.errors import DataError
from weft.limits import VOCABULARY

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
NORMAL, USER_DEFINED = 1, 4
MODEL_TYPES: Final = {1: "unigram", 2: "bpe", 3: "word", 4: "char"}


class SentencePieces(NamedTuple):
    """The score of each piece that a text may be cut into, and the normalizer and pre-tokenizer as parts of a
    tokenizer.json."""

    scores: dict[str, float]
    normalizer: list[dict[str, Any]]
    pre_tokenizer: dict[str, Any]


def read_sentencepiece(content: bytes, where: str) -> SentencePieces:
    """Read a unigram model; anything else is refused."""
    try:
        return _read(content, where)
    except (ValueError, IndexError, struct.error) as error:
        raise DataError(f"is no model of SentencePiece: {error}", where=where, cure="copy it again") from None


def _read(content: bytes, where: str) -> SentencePieces:
    scores: dict[str, float] = {}
    charsmap, dummy, single, kind = b"", True, True, 1
    for number, value in _fields(content):
        if number == 1:
            piece = dict(_fields(_bytes(value)))
            if piece.get(3, NORMAL) in (NORMAL, USER_DEFINED):
                text = _bytes(piece.get(1, b"")).decode("utf-8")
                scores[text] = struct.unpack("<f", _bytes(piece.get(2, bytes(4))))[0]
            if len(scores) > VOCABULARY:
                raise ValueError(f"it has more than {VOCABULARY:,} pieces")
        elif number == 2:
            kind = dict(_fields(_bytes(value))).get(3, kind)  # type: ignore[assignment]
        elif number == 3:
            rules = dict(_fields(_bytes(value)))
            charsmap = _bytes(rules.get(2, b""))
            dummy, single = bool(rules.get(3, 1)), bool(rules.get(4, 1))
    if kind != 1:
        what = f"is a model of the type {MODEL_TYPES.get(kind, str(kind))}"
        raise DataError(what, where=where, cure="weft imports unigram models of SentencePiece")
    if not scores:
        raise ValueError("it has no pieces")
    normalizer: list[dict[str, Any]] = []
    if charsmap:
        table = base64.b64encode(charsmap).decode("ascii")
        normalizer.append({"type": "Precompiled", "precompiled_charsmap": table})
    if single:
        normalizer.append({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "})
        normalizer.append({"type": "Strip", "strip_left": True, "strip_right": True})
    scheme = "always" if dummy else "never"
    cut = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": True}
    return SentencePieces(scores, normalizer, cut)


def _bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ValueError("a field is of the wrong type")
    return value


def _fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message with their numbers."""
    place = 0
    while place < len(content):
        key, place = _varint(content, place)
        number, wire = key >> 3, key & 7
        if wire == VARINT:
            value, place = _varint(content, place)
            yield number, value
            continue
        if wire == LENGTH:
            size, place = _varint(content, place)
        elif wire in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if wire == EIGHT_BYTES else 4
        else:
            raise ValueError(f"it has a field of the type {wire}")
        if size > len(content) - place:
            raise ValueError("it ends too early")
        yield number, content[place : place + size]
        place += size


def _varint(content: bytes, place: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = content[place]
        place += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, place
    raise ValueError("it has a number without an end")
