"""The tables of a tokenizer that text.c reads: vocabulary, merges or scores, and the Unicode tables that it needs.

"weftTEXT", version, kind, flags, entries (u32), bytes (u64), arrays (u32), most characters (u32)
offset and count (u64) of each array, in the order of text_open.c
the arrays, each at a multiple of 8 bytes
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from weft.errors import ConfigError
from weft.export.c import unicode_tables as unicode
from weft.export.c.imported_text import CLOSES, SILENT, WHOLE_WORDS, imported_text
from weft.export.c.trie import build_trie
from weft.text import EOS, PAD, SOS, SPECIALS, UNK, TextRules, Tokenizer
from weft.text.pipeline import byte_letters, byte_tokens, letters_to_bytes
from weft.text.spelling import OPEN, SPACED, spelling_of
from weft.text.unknown import unknown_word
from weft.text.vocabulary import LIKE_SPECIAL

MAGIC: Final = b"weftTEXT"
VERSION: Final = 1
KINDS: Final = {"char": 1, "word": 2, "bpe": 3, "unigram": 4, "wordpiece": 5}
LOWERCASE, GLUE, KEEP, SENTENCES = (1 << bit for bit in range(4))
IS_BYTE, OPENS = 2, 8
NO_RANK: Final = 0xFFFFFFFF

ARRAYS: Final[Mapping[str, str]] = {
    "content": "u1",
    "starts": "<u4",
    "marks": "u1",
    "slots": "<u4",
    "byte_ids": "<u4",
    "pairs": "<u4",
    "children": "<u4",
    "labels": "u1",
    "values": "<u4",
    "scores": "<f8",
    "ascii_classes": "<u2",
    "class_starts": "<u4",
    "classes": "<u2",
    "lower": "<i4",
    "expansions": "<u4",
    "unknown_starts": "<u4",
    "unknown": "<u4",
}
"""The arrays in the order of text_open.c, with the types of their numbers."""

RECORDS: Final = {"pairs": 4, "lower": 4, "expansions": 4}
"""Arrays whose elements are several numbers."""

_BYTE = re.compile(r"<0x([0-9a-fA-F]{2}|\+[0-9a-fA-F])>")
"""The spelling that the library reads as a byte in a vocabulary of characters."""

_ESCAPED = re.compile(rf"\\(?={LIKE_SPECIAL}\Z)")
"""The backslash of a word that is spelled like a special token."""


def text_tables(tokenizer: Tokenizer, *, sentences: bool = False) -> bytes:
    """The section of a tokenizer in weights.bin; with `sentences` it can also split the sentences of a tagger.

    A tokenizer of a kind that the C has not raises `ConfigError`.
    """
    tree = json.loads(tokenizer.to_json())
    flags, model = SENTENCES if sentences else 0, tree["model"]
    config, kind = tokenizer.config, tokenizer.kind
    imported = imported_text(tree) if kind == "imported" else None
    if imported is not None:
        kind, flags = imported.kind, flags | imported.flags
    flags |= LOWERCASE if config.lowercase else 0
    if kind == "word":
        flags |= GLUE if config.punctuation == "split" else KEEP
    if imported is None:
        found = _contents(tokenizer)
    else:
        found = _stored(imported.contents, imported.marks)
        if flags & WHOLE_WORDS:
            found["slots"] = _slots(imported.keys)
    if kind in ("char", "bpe"):
        found["byte_ids"] = list(map(tokenizer.id, byte_tokens() if kind == "char" else _letters_by_byte()))
    if kind == "bpe":
        found["pairs"] = _pairs(model["vocab"], model["merges"])
    if kind == "unigram":
        found["scores"] = [score for _, score in model["vocab"]]
        pieces = {letters_to_bytes(piece): index for index, (piece, _) in enumerate(model["vocab"])}
        found["children"], found["labels"], found["values"] = build_trie(pieces)
    if kind == "wordpiece" and imported is not None:
        found["children"], found["labels"], found["values"] = build_trie(imported.keys)
        found["lower"], found["expansions"] = imported.lower
    own = imported.classes if imported else None
    classes = unicode.class_table(_classes(kind, config, flags), own)
    found["class_starts"], found["classes"], found["ascii_classes"] = classes
    if config.lowercase:
        found["lower"], found["expansions"] = unicode.lower_case()
    if (unknown := unknown_word(config)) is not None and config.unknown is not None:
        sets = [_alternatives(character, unknown.flags) for character in config.unknown]
        found["unknown"] = [code for codes in sets for code in codes]
        found["unknown_starts"] = np.cumsum([0, *map(len, sets)])
    most = imported.most_characters if imported else 0
    return _pack(KINDS[kind], flags, len(tokenizer), most, found)


def _contents(tokenizer: Tokenizer) -> dict[str, Any]:
    """The bytes that each entry adds to a text, their hash table where texts are cut into whole entries, and marks."""
    kind, entries, keys = tokenizer.kind, tokenizer.tokens(range(len(tokenizer))), dict[bytes, int]()
    unknown = tokenizer.config.unknown or SPECIALS[UNK]
    marks = np.zeros(len(entries), dtype=np.uint8)
    if kind in ("bpe", "unigram"):
        contents = tokenizer.contents()
        contents[: len(SPECIALS)] = [name.encode() for name in SPECIALS]
        contents[UNK] = unknown.encode()
    else:
        shown = [*entries]
        shown[UNK] = unknown
        contents = [(_ESCAPED.sub("", entry, count=1) if kind == "word" else entry).encode() for entry in shown]
        keys = {content: index for index, content in enumerate(contents) if index >= len(SPECIALS)}
    if kind == "char":
        for index, content in enumerate(contents):
            if spelled := _BYTE.fullmatch(content.decode()):
                contents[index] = bytes([int(spelled[1], 16)])
                marks[index] |= IS_BYTE
                keys.pop(content, None)
    if kind == "word":
        spelling = spelling_of(tokenizer)
        for index, content in enumerate(contents):
            marks[index] |= CLOSES if spelling.added[SPACED][index] == content else 0
            marks[index] |= OPENS if spelling.after[index] == OPEN else 0
    marks[[PAD, SOS, EOS]] = SILENT
    found = _stored(contents, marks)
    return found if kind in ("bpe", "unigram") else found | {"slots": _slots(keys)}


def _stored(contents: Sequence[bytes], marks: NDArray[np.uint8]) -> dict[str, Any]:
    starts = np.cumsum([0, *map(len, contents)])
    if starts[-1] > NO_RANK:
        raise ConfigError("its vocabulary has more than 4 GB of text", where="text.size", cure="lower it")
    return {"content": np.frombuffer(b"".join(contents), dtype=np.uint8), "starts": starts, "marks": marks}


def _letters_by_byte() -> list[str]:
    """The byte letters in the order of their bytes."""
    return sorted(byte_letters(), key=letters_to_bytes)


def _classes(kind: str, config: TextRules, flags: int) -> Iterable[int]:
    """The classes of characters that a tokenizer reads."""
    if kind in ("word", "wordpiece"):
        yield unicode.SPACE
        if kind == "word" and not flags & KEEP:
            yield from (unicode.NUMBER, unicode.IN_WORD, unicode.OPENING, unicode.CLOSING)
    elif kind != "char":
        yield from (unicode.LETTER, unicode.NUMBER, unicode.SPACE)
    if config.unknown is not None or flags & SENTENCES:
        yield unicode.BLANK
    if flags & SENTENCES:
        yield unicode.PUNCTUATION


def _alternatives(character: str, flags: int) -> list[int]:
    """The characters that a pattern with these flags takes for a character."""
    if not flags & re.IGNORECASE:
        return [ord(character)]
    return unicode.matches(re.compile(re.escape(character), flags))


def _slots(keys: Mapping[bytes, int]) -> NDArray[np.uint32]:
    """A hash table from bytes to id + 1, by FNV-1a, with the next slot where one is taken."""
    slots = np.zeros(_power_of_two(2 * len(keys)), dtype=np.uint32)
    taken = slots.tolist()
    for key, index in keys.items():
        hashed = 2166136261
        for byte in key:
            hashed = (hashed ^ byte) * 16777619 & 0xFFFFFFFF
        slot = (hashed ^ hashed >> 15) & (len(taken) - 1)
        while taken[slot]:
            slot = (slot + 1) & (len(taken) - 1)
        taken[slot] = index + 1
    return np.asarray(taken, dtype=np.uint32)


def _pairs(ids: Mapping[str, int], merges: Sequence[tuple[str, str]]) -> NDArray[np.uint32]:
    """A hash table from two ids to the rank of their pair and the id of what they become."""
    size = _power_of_two(2 * len(merges)) if merges else 0
    pairs = np.full((size, 4), NO_RANK, dtype=np.uint32)
    taken: dict[int, tuple[int, int]] = {}
    for rank, (left, right) in enumerate(merges):
        pair = ids[left], ids[right]
        hashed = (pair[0] * 0x9E3779B1 ^ pair[1] * 0x85EBCA77) & 0xFFFFFFFF
        slot = (hashed ^ hashed >> 15) & (size - 1)
        while taken.get(slot, pair) != pair:  # of a pair that stands twice the last rank counts
            slot = (slot + 1) & (size - 1)
        taken[slot] = pair
        pairs[slot] = (*pair, rank, ids[left + right])
    return pairs


def _power_of_two(least: int) -> int:
    return 1 << max(least, 2).bit_length()


def _pack(kind: int, flags: int, size: int, most: int, found: Mapping[str, Any]) -> bytes:
    header = len(MAGIC) + struct.calcsize("<IIIIQII") + struct.calcsize("<QQ") * len(ARRAYS)
    directory, body = b"", b""
    for name, numbers in ARRAYS.items():
        values = np.asarray(found.get(name, ()), dtype=numbers).reshape(-1)
        body += b"\0" * (-(header + len(body)) % 8)
        directory += struct.pack("<QQ", header + len(body), len(values) // RECORDS.get(name, 1))
        body += values.tobytes()
    total = header + len(body)
    return MAGIC + struct.pack("<IIIIQII", VERSION, kind, flags, size, total, len(ARRAYS), most) + directory + body
