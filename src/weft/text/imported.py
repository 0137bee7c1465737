"""Tokenizers that other software has learned, as tokenizer.json files of the `tokenizers` library.

Only three pipelines are accepted, WordPiece, byte-level BPE and Unigram, and of each part of a pipeline only the types
and options in `PARTS`: none of them has a pattern of its own, truncates, pads or draws at random.

The five special tokens are the first entries, as in every vocabulary of weft. No text is cut into a special token:
the entry of one begins with `HIDDEN`, which is removed from every text. Other entries may be hidden too, such as the
words of the target in the tokenizer of a source.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import tokenizers
from tokenizers import models

from weft.limits import PIECES, VOCABULARY
from weft.text.pipeline import letters_to_bytes
from weft.text.vocabulary import SPECIALS, UNK

HIDDEN: Final = "\ufdd0"
"""A code point that Unicode reserves for use inside programs: an entry that begins with it is found in no text."""

MAX_PART_LETTERS: Final = 16
"""Letters of a text in the options of a part, such as the prefix of WordPiece."""

MAX_CHARSMAP_BYTES: Final = 4 << 20
"""Bytes of the table by which SentencePiece normalises characters; those in use have about 300,000."""

MAX_STEPS: Final = 16
"""Steps of a part that is a sequence of others."""

MAX_WORD_CHARACTERS: Final = 1000
"""Characters of a word that WordPiece cuts; its time grows with their square."""

SEVERAL_BLANKS: Final = " {2,}"
"""The pattern of several blanks, the only one that a file may have."""

Check = Callable[[Any], bool]


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= MAX_PART_LETTERS


def _number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= MAX_PART_LETTERS


def _maybe_flag(value: Any) -> bool:
    return value is None or _flag(value)


def _one_of(*values: object) -> Check:
    return lambda value: any(type(value) is type(one) and value == one for one in values)


def _pattern(value: Any) -> bool:
    """A plain text, or the pattern of several blanks."""
    if not isinstance(value, dict) or len(value) != 1:
        return False
    return _text(value.get("String")) or value.get("Regex") == SEVERAL_BLANKS


def _charsmap(value: Any) -> bool:
    try:
        return isinstance(value, str) and len(base64.b64decode(value, validate=True)) <= MAX_CHARSMAP_BYTES
    except binascii.Error:
        return False


_BYTE_LEVEL = {"add_prefix_space": _flag, "trim_offsets": _flag, "use_regex": _flag}
_METASPACE = {"replacement": _one_of("▁"), "prepend_scheme": _one_of("always", "first", "never"), "split": _flag}
_REPLACE = {"pattern": _pattern, "content": _text}
_STEPS: Mapping[str, Check] = {}

PARTS: Final[Mapping[str, Mapping[str, Mapping[str, Check]]]] = {
    "normalizer": {
        "BertNormalizer": {
            "clean_text": _flag,
            "handle_chinese_chars": _flag,
            "strip_accents": _maybe_flag,
            "lowercase": _flag,
        },
        "Precompiled": {"precompiled_charsmap": _charsmap},
        "Prepend": {"prepend": _text},
        "Replace": _REPLACE,
        "Strip": {"strip_left": _flag, "strip_right": _flag},
        **dict.fromkeys(("Lowercase", "NFC", "NFD", "NFKC", "NFKD", "Nmt", "StripAccents"), _STEPS),
    },
    "pre_tokenizer": {
        "ByteLevel": _BYTE_LEVEL,
        "Digits": {"individual_digits": _flag},
        "Metaspace": _METASPACE,
        **dict.fromkeys(("BertPreTokenizer", "WhitespaceSplit"), _STEPS),
    },
    "decoder": {
        "ByteLevel": _BYTE_LEVEL,
        "Metaspace": _METASPACE,
        "Replace": _REPLACE,
        "Strip": {"content": _text, "start": _number, "stop": _number},
        "WordPiece": {"prefix": _text, "cleanup": _flag},
        **dict.fromkeys(("ByteFallback", "Fuse"), _STEPS),
    },
}
"""The types of each part that are accepted, with the options of each type."""

LISTS: Final = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
"""The name of the list in a part that is a sequence of others."""

MODELS: Final[Mapping[str, Mapping[str, Check]]] = {
    "WordPiece": {
        "unk_token": _one_of(HIDDEN + SPECIALS[UNK]),
        "continuing_subword_prefix": _text,
        "max_input_chars_per_word": lambda value: type(value) is int and 0 < value <= MAX_WORD_CHARACTERS,
    },
    "BPE": {
        "dropout": _one_of(None),
        "unk_token": _one_of(None),
        "continuing_subword_prefix": _one_of(None, ""),
        "end_of_word_suffix": _one_of(None, ""),
        "fuse_unk": _flag,
        "byte_fallback": _one_of(False),
        "ignore_merges": _flag,
    },
    "Unigram": {"unk_id": _one_of(UNK), "byte_fallback": _one_of(False)},
}
"""The models that are accepted, with their options."""

NEEDED: Final = {"WordPiece": "BertPreTokenizer", "BPE": "ByteLevel", "Unigram": "Metaspace"}
"""The step without which the pre-tokenizer of a model could cut a text into something else than words or bytes."""

WHOLE: Final = ("version", "truncation", "padding", "added_tokens", *PARTS, "post_processor", "model")


def check_part(part: str, found: Any) -> None:
    """Raise ValueError unless a normalizer, pre-tokenizer or decoder is made of known types with known options."""
    steps = part_steps(part, found)
    if len(steps) > MAX_STEPS:
        raise ValueError(f"its {part} has {len(steps)} steps, and {MAX_STEPS} is the limit")
    for step in steps:
        kind = step.get("type") if isinstance(step, dict) else step
        if not isinstance(kind, str) or kind not in PARTS[part]:
            known = ", ".join(PARTS[part])
            raise ValueError(f"its {part} is of the type {kind!s:.40}, which weft has not (it has {known})")
        _check_options(
            f"{part} {kind}", {name: value for name, value in step.items() if name != "type"}, PARTS[part][kind]
        )


def part_steps(part: str, found: Any) -> list[Any]:
    """The steps of a part: none, one, or those of a sequence, which may contain sequences."""
    if found is None:
        return []
    if isinstance(found, dict) and found.get("type") == "Sequence":
        steps = found.get(LISTS[part])
        if set(found) != {"type", LISTS[part]} or not isinstance(steps, list):
            raise ValueError(f"its {part} is a sequence without a list")
        return [inner for step in steps[: MAX_STEPS + 1] for inner in part_steps(part, step)]
    return [found]


def _check_options(name: str, found: Mapping[str, Any], known: Mapping[str, Check]) -> None:
    for option in {*found, *known}:
        if option not in found or option not in known or not known[option](found[option]):
            what = f"{option} = {found[option]!r:.40}" if option in found else f"no {option}"
            raise ValueError(f"its {name} has {what}, which weft does not read")


def parse_imported(found: dict[str, Any], *, most: int) -> tokenizers.Tokenizer:
    """Build the tokenizer of a parsed file of at most `most` entries; raise ValueError where it is not acceptable."""
    if set(found) != set(WHOLE) or any(
        found[name] for name in ("truncation", "padding", "added_tokens", "post_processor")
    ):
        raise ValueError("it has other parts than an imported tokenizer")
    for part in PARTS:
        check_part(part, found[part])
    model = found["model"]
    kind = model.get("type")
    if kind not in MODELS:
        raise ValueError(f"its model is of the type {kind!s:.40}, and not {', '.join(MODELS)}")
    options = {name: value for name, value in model.items() if name not in ("type", "vocab", "merges")}
    _check_options(f"model {kind}", options, MODELS[kind])
    cuts = [step["type"] for step in part_steps("pre_tokenizer", found["pre_tokenizer"])]
    if NEEDED[kind] not in cuts:
        raise ValueError(f"its model {kind} stands without the pre-tokenizer {NEEDED[kind]}")
    if kind != "BPE" and remove_hidden() not in part_steps("normalizer", found["normalizer"])[:1]:
        raise ValueError("its normalizer does not begin with the removal of hidden entries")
    _check_vocabulary(model, kind, most)
    return tokenizers.Tokenizer.from_str(json.dumps(found))


def remove_hidden() -> dict[str, Any]:
    """The first step of a normalizer and of a decoder: it removes the mark of hidden entries."""
    return {"type": "Replace", "pattern": {"String": HIDDEN}, "content": ""}


def _check_vocabulary(model: Mapping[str, Any], kind: str, most: int) -> None:
    vocab, merges = model.get("vocab"), model.get("merges", [])
    if not isinstance(vocab, dict | list) or len(vocab) > min(most, VOCABULARY):
        size = f"{len(vocab):,}" if isinstance(vocab, dict | list) else "no"
        raise ValueError(f"it has {size} entries, and {min(most, VOCABULARY):,} is the limit")
    entries = _pieces(vocab) if kind == "Unigram" else _in_order(vocab)
    if tuple(entries[: len(SPECIALS)]) != tuple(HIDDEN + name for name in SPECIALS):
        raise ValueError(f"it does not begin with {', '.join(SPECIALS)}")
    if kind != "BPE":
        return
    if not isinstance(merges, list) or len(merges) > len(entries):
        raise ValueError("it has more merges than entries")
    if not all(isinstance(pair, list) and list(map(type, pair)) == [str, str] for pair in merges):
        raise ValueError("it has merges that are not pairs of pieces")


def _in_order(vocab: Any) -> list[str]:
    """The entries of a table in the order of their ids, which must be 0, 1, 2 and so on."""
    if not isinstance(vocab, dict):
        raise ValueError("it has no table of entries")
    ids = sorted(vocab, key=lambda entry: vocab[entry] if type(vocab[entry]) is int else -1)
    if [vocab[entry] for entry in ids] != list(range(len(ids))):
        raise ValueError("its ids are not 0, 1, 2, …")
    return ids


def _pieces(vocab: Any) -> Sequence[str]:
    if not isinstance(vocab, list):
        raise ValueError("it has no list of pieces")
    for pair in vocab:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str) or type(pair[1]) is not float:
            raise ValueError("it has pieces that are not a text and a number")
    pieces = [piece for piece, _ in vocab]
    if len(set(pieces)) < len(pieces) or sum(map(len, pieces)) > PIECES:
        raise ValueError(f"it has a piece twice, or more than {PIECES:,} letters")
    return pieces


def shown(entry: str) -> str:
    """An entry without the mark of hidden ones."""
    return entry.removeprefix(HIDDEN)


def entry_bytes(tokenizer: tokenizers.Tokenizer) -> Callable[[str], bytes]:
    """The function from an entry to the UTF-8 bytes that it adds inside a text, with the blank before it."""
    model = tokenizer.model
    if isinstance(model, models.BPE):
        return letters_to_bytes
    if isinstance(model, models.Unigram):
        return lambda entry: entry.replace("▁", " ").encode()
    prefix: str = model.continuing_subword_prefix
    return lambda entry: (entry.removeprefix(prefix) if entry.startswith(prefix) else f" {entry}").encode()


def with_plain_specials(content: str) -> str:
    """A tokenizer.json in which special tokens have their plain names, where no text is cut into these anyway.

    The texts of Unigram are not cut at punctuation, so that its special tokens stay hidden.
    """
    tree = json.loads(content)
    model = tree["model"]
    if model["type"] == "Unigram":
        return content
    plain = {HIDDEN + name: name for name in SPECIALS}
    model["vocab"] = {plain.get(entry, entry): index for entry, index in model["vocab"].items()}
    model["unk_token"] = plain.get(model["unk_token"])
    return json.dumps(tree, ensure_ascii=False)
