"""Read a tokenizer.json, and reject one that does not do what the config says.

A file could make the library pad, truncate, drop tokens at random, match a pattern without end or allocate memory for
ids without an entry. So only the vocabulary is taken from it, after a check of every entry, and all the rest must be
equal to what weft itself writes.

Files of earlier versions list the special tokens as `added_tokens`, which the library finds in any text. Their
vocabulary gets the current rules, with "<unk>" as the word that means unknown, because their models were trained so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from os.path import commonprefix
from typing import Any

import tokenizers
from tokenizers import models

from weft.documents import parse_json
from weft.errors import RunError
from weft.limits import PIECES, VOCABULARY
from weft.text.imported import parse_imported
from weft.text.pipeline import (
    assemble,
    bpe_model,
    byte_letters,
    byte_tokens,
    character_model,
    empty_model,
    no_panic,
    unigram_model,
    word_model,
)
from weft.text.rules import TextRules
from weft.text.vocabulary import SPECIALS, UNK

LEARNED = ("vocab", "merges")

MAX_RULES_BYTES = 1 << 16
"""The limit for rules that are passed to the library; those of weft have a tenth of it."""


def parse_tokenizer(
    content: bytes, config: TextRules, where: str, *, most: int = VOCABULARY
) -> tuple[tokenizers.Tokenizer, TextRules]:
    """Check a file of at most `most` entries; returns its tokenizer and the settings that the tokenizer works with.

    A file that fails a check raises `RunError`.
    """
    try:
        found = parse_json(content)
        if not isinstance(found, dict) or not isinstance(found.get("model"), dict):
            raise ValueError("it has no model")
    except ValueError as error:
        raise RunError(f"is damaged or not a tokenizer: {error}", where=where) from None
    if config.kind == "imported":
        return _imported(found, where, most=most), config
    vocab, merges = (found["model"].pop(name, None) for name in LEARNED)
    expected = _rules(assemble(empty_model(config.kind), config))
    former = _former(expected, config) if config.unknown is None else expected
    found = _in_current_form(found, config, [expected, former])
    if found == former != expected:
        config = config.with_unknown(SPECIALS[UNK])
        found = expected
    try:
        if wrong := [part for part in expected if found.get(part) != expected[part]] or found.keys() - expected:
            differ = f"{', '.join(wrong):.100} differ" if found.keys() == expected.keys() else "it has other parts"
            raise ValueError(f"is not a tokenizer of kind {config.kind!r} with these text settings ({differ})")
        with no_panic(lambda reason: RunError(f"is damaged: {reason}", where=where)):
            return assemble(_model(vocab, merges, config.kind, min(most, VOCABULARY)), config), config
    except RunError:
        raise
    except ValueError as error:
        raise RunError(str(error), where=where, cure="restore the file, or learn the vocabulary again") from None
    except Exception as error:  # the library raises nothing more specific
        raise RunError(f"is damaged: {error!s:.100}", where=where) from None


def _imported(found: dict[str, Any], where: str, *, most: int) -> tokenizers.Tokenizer:
    try:
        with no_panic(lambda reason: RunError(f"is damaged: {reason}", where=where)):
            return parse_imported(found, most=most)
    except RunError:
        raise
    except ValueError as error:
        raise RunError(str(error), where=where, cure="import it again") from None
    except Exception as error:  # the library raises nothing more specific
        raise RunError(f"is damaged: {error!s:.100}", where=where) from None


def _model(vocab: Any, merges: Any, kind: str, most: int) -> models.Model:
    """The model of a vocabulary; raises ValueError if the vocabulary is not valid."""
    if isinstance(vocab, list | dict) and len(vocab) > most:
        raise ValueError(f"has {len(vocab):,} entries, and {most:,} is the limit")
    if kind == "unigram":
        pieces = _pieces(vocab)
        _check_entries([piece for piece, _ in pieces], kind)
        return unigram_model(pieces[len(SPECIALS) :])
    entries = _in_order(vocab)
    _check_entries(entries, kind)
    if kind == "word":
        return word_model(entries[len(SPECIALS) :])
    if not isinstance(merges, list) or len(merges) > (0 if kind == "char" else len(entries)):
        raise ValueError("has merges that do not fit its kind")
    if not all(isinstance(pair, list) and list(map(type, pair)) == [str, str] for pair in merges):
        raise ValueError("has merges that are not pairs of pieces")
    if kind == "char":
        return character_model(entries[len(SPECIALS) :])
    return bpe_model(vocab, [(left, right) for left, right in merges])


def _in_order(vocab: Any) -> list[str]:
    """The entries of a table in the order of their ids, which must be 0, 1, 2 and so on."""
    if not isinstance(vocab, dict):
        raise ValueError("has no table of entries")
    entries: list[str | None] = [None] * len(vocab)
    for entry, index in vocab.items():
        if type(index) is not int or not 0 <= index < len(entries) or entries[index] is not None:
            raise ValueError("has ids that are not 0, 1, 2, …")
        entries[index] = entry
    return [entry for entry in entries if entry is not None]


def _pieces(vocab: Any) -> list[tuple[str, float]]:
    if not isinstance(vocab, list):
        raise ValueError("has no list of pieces")
    for pair in vocab:
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str) or type(pair[1]) is not float:
            raise ValueError("has pieces that are not a text and a number")
    if len({piece for piece, _ in vocab}) < len(vocab):
        raise ValueError("has a piece twice")
    if _beginnings([piece for piece, _ in vocab]) > PIECES:
        raise ValueError(f"has pieces with more than {PIECES:,} beginnings")
    return [(piece, score) for piece, score in vocab]


def _beginnings(pieces: Sequence[str]) -> int:
    """The number of different beginnings of the pieces; up to `PIECES` letters, the number of letters instead."""
    letters = sum(map(len, pieces))
    if letters <= PIECES:
        return letters
    return letters - sum(len(commonprefix(pair)) for pair in pairwise(sorted(pieces)))  # noqa: RUF071 (no paths)


def _check_entries(entries: Sequence[str], kind: str) -> None:
    """Raise ValueError unless the entries begin with the special tokens, include all bytes and consist of the letters
    of their kind."""
    if tuple(entries[: len(SPECIALS)]) != SPECIALS:
        raise ValueError(f"does not begin with {', '.join(SPECIALS)}")
    own = entries[len(SPECIALS) :]
    if kind == "word":
        return
    letters = set(byte_tokens() if kind == "char" else byte_letters())
    if not letters <= set(own):
        raise ValueError("lacks some of the 256 bytes")
    strange = (entry for entry in own if len(entry) != 1) if kind == "char" else iter(set("".join(own)))
    if not letters.issuperset(strange):
        raise ValueError("has entries that are neither characters nor bytes")


def _in_current_form(found: dict[str, Any], config: TextRules, known: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The rules of a file as the installed library writes them; another version may have written the file.

    They are passed to the library only if every text in them occurs in known rules too: it gets no foreign pattern.
    """
    if found in known or len(json.dumps(found)) > MAX_RULES_BYTES:
        return found
    if not set(_texts(found)) <= {text for rules in known for text in _texts(rules)}:
        return found
    empty = json.loads(assemble(empty_model(config.kind), config).to_str())["model"]
    learned = {name: empty[name] for name in LEARNED if name in empty}
    try:
        with no_panic(RunError):
            return _rules(tokenizers.Tokenizer.from_str(json.dumps(found | {"model": found["model"] | learned})))
    except Exception:  # the library raises nothing more specific; the caller reports the difference
        return found


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in items:
        yield from _texts(item)
    if isinstance(value, str):
        yield value


def _former(rules: dict[str, Any], config: TextRules) -> dict[str, Any]:
    """The rules as earlier versions wrote them, in which special tokens are found in texts."""
    how = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": True}
    former = rules | {"added_tokens": [{"id": index, "content": token, **how} for index, token in enumerate(SPECIALS)]}
    if config.kind == "word":
        former["normalizer"] = {"type": "Lowercase"} if config.lowercase else None
        former["decoder"] = rules["decoder"] | {"decoders": rules["decoder"]["decoders"][1:]}
    return former


def _rules(tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    """The description of a tokenizer without its vocabulary and merges."""
    description: dict[str, Any] = json.loads(tokenizer.to_str())
    for learned in LEARNED:
        description["model"].pop(learned, None)
    return description
