"""Tokenizers of other software in the tables of text.c: byte-level BPE of GPT-2 and WordPiece of BERT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from tokenizers import decoders, normalizers, pre_tokenizers

from weft.errors import ConfigError
from weft.export.c import unicode_tables as unicode
from weft.text import EOS, PAD, SOS
from weft.text.imported import HIDDEN, part_steps, remove_hidden
from weft.text.pipeline import byte_letters, letters_to_bytes

LOWERCASE, BLANK_FIRST, WHOLE_WORDS, HANGUL = 1, 16, 32, 64
SILENT, CLOSES, CONTINUES = 1, 4, 16
CONTINUING: Final = "##"
HANGUL_SYLLABLES: Final = range(0xAC00, 0xD7A4)


@dataclass(frozen=True)
class ImportedText:
    """What the tables of an imported tokenizer have in its place: the bytes of entries with their marks, the ids of
    those that texts are cut into, classes of characters by their bits, and what characters become."""

    kind: str
    flags: int
    contents: Sequence[bytes]
    marks: NDArray[np.uint8]
    keys: Mapping[bytes, int]
    classes: Mapping[int, NDArray[np.bool_]] = field(default_factory=dict)
    lower: unicode.LowerCase = field(default_factory=lambda: unicode.LowerCase([], []))
    most_characters: int = 0


def imported_text(tree: Mapping[str, Any]) -> ImportedText:
    """Read the parts of a tokenizer.json; a pipeline that the C has not raises `ConfigError`."""
    read = {"BPE": _byte_pairs, "WordPiece": _wordpiece}.get(tree["model"]["type"])
    found = read(tree) if read else None
    if found is None:
        what = (
            f"its {tree['model']['type']} tokenizer has no C: only byte-level BPE of GPT-2 and WordPiece of BERT have"
        )
        raise ConfigError(what, where='text.kind = "imported"', cure="export to onnx or huggingface")
    return found


def _byte_pairs(tree: Mapping[str, Any]) -> ImportedText | None:
    model, cut = tree["model"], tree["pre_tokenizer"] or {}
    letters, entries = set(byte_letters()), _entries(model)
    if (
        cut.get("type") != "ByteLevel"
        or not cut["use_regex"]
        or part_steps("normalizer", tree["normalizer"])
        or [step["type"] for step in part_steps("decoder", tree["decoder"])] != ["Replace", "ByteLevel"]
        or not letters <= set(entries)
    ):
        return None
    shown = [entry.replace(HIDDEN, "") for entry in entries]
    contents = [letters_to_bytes(entry) if letters.issuperset(entry) else entry.encode() for entry in shown]
    keys = {contents[index]: index for index, entry in enumerate(entries) if letters.issuperset(entry)}
    flags = (BLANK_FIRST if cut["add_prefix_space"] else 0) | (WHOLE_WORDS if model["ignore_merges"] else 0)
    return ImportedText("bpe", flags, contents, _marks(len(entries)), keys)


def _wordpiece(tree: Mapping[str, Any]) -> ImportedText | None:
    model, entries = tree["model"], _entries(tree["model"])
    normal, cuts = (part_steps(part, tree[part]) for part in ("normalizer", "pre_tokenizer"))
    if (
        [step["type"] for step in normal[1:]] != ["BertNormalizer"]
        or normal[0] != remove_hidden()
        or [step["type"] for step in cuts] != ["BertPreTokenizer"]
        or model["continuing_subword_prefix"] != CONTINUING
        or [step["type"] for step in part_steps("decoder", tree["decoder"])] != ["Replace", "WordPiece"]
    ):
        return None
    rule, joined = normal[1], part_steps("decoder", tree["decoder"])[1]
    decoder = decoders.WordPiece(prefix=joined["prefix"], cleanup=joined["cleanup"])
    shown, marks = [entry.replace(HIDDEN, "") for entry in entries], _marks(len(entries))
    for index, entry in enumerate(shown):
        after = decoder.decode(["x", entry]).removeprefix("x")
        if entry.startswith(CONTINUING) and after == entry.removeprefix(CONTINUING):
            marks[index] |= CONTINUES
        elif after == entry:
            marks[index] |= CLOSES
        elif after != f" {entry}":
            return None
    bert = normalizers.BertNormalizer(**{name: value for name, value in rule.items() if name != "type"})
    flags, classes, lower = _normal(bert)
    classes[unicode.PUNCTUATION] = unicode.cut_off(pre_tokenizers.BertPreTokenizer())
    keys = {entry.encode(): index for index, entry in enumerate(entries) if HIDDEN not in entry and entry}
    contents = [entry.encode() for entry in shown]
    return ImportedText("wordpiece", flags, contents, marks, keys, classes, lower, model["max_input_chars_per_word"])


def _entries(model: Mapping[str, Any]) -> list[str]:
    """The entries in the order of their ids."""
    return sorted(model["vocab"], key=model["vocab"].__getitem__)


def _marks(size: int) -> NDArray[np.uint8]:
    marks = np.zeros(size, dtype=np.uint8)
    marks[[PAD, SOS, EOS]] = SILENT
    return marks


def _normal(bert: normalizers.Normalizer) -> tuple[int, dict[int, NDArray[np.bool_]], unicode.LowerCase]:
    """Flags, classes and changed characters of a normalizer: what it deletes, makes a blank, sets between blanks, and
    turns into other characters."""
    classes = {bit: np.zeros(unicode.CODE_POINTS, dtype=np.bool_) for bit in (unicode.DELETED, unicode.BLANK)}
    classes[unicode.SPACED] = np.zeros(unicode.CODE_POINTS, dtype=np.bool_)
    flags, changed = 0, list[tuple[int, str]]()
    for code, found in unicode.each_normalized(bert):
        text = found
        if chr(code) == "|":  # it separates the others
            continue
        if text == "" or chr(code) == HIDDEN:
            classes[unicode.DELETED][code] = True
        elif text == " ":
            classes[unicode.BLANK][code] = True
        else:
            if len(text) > 2 and text[0] == text[-1] == " ":
                classes[unicode.SPACED][code], text = True, text[1:-1]
            if text == chr(code):
                continue
            if code in HANGUL_SYLLABLES:
                flags |= HANGUL
            elif code < 128:
                flags |= LOWERCASE
            else:
                changed.append((code, text))
    return flags, classes, unicode.compact(changed)
