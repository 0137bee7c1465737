"""Reading a tokenizer.json, and refusing one that does not do what the config says.

A file can make the library pad, truncate, drop tokens at random or match a pattern that never ends. So everything
in it but the vocabulary must be what weft itself would have written.

Files of earlier versions have the special tokens as `added_tokens`, which the library finds in any text. Their
vocabulary gets the rules of today, with "<unk>" as the word that means unknown: models were trained with it as that.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers

from weft.errors import RunError
from weft.text.config import TextConfig
from weft.text.pipeline import assemble, byte_letters, byte_tokens, empty_model, no_panic
from weft.text.vocabulary import SPECIALS, UNK


def read_tokenizer(path: Path, config: TextConfig) -> tuple[tokenizers.Tokenizer, TextConfig]:
    """Load and check a file, and the settings that it works with; whatever is wrong is a `RunError` that names it."""
    where = str(path)
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise RunError("there is no such file", where=where) from None
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"cannot be read: {error}", where=where) from None
    try:
        with no_panic(lambda reason: RunError(f"is damaged: {reason}", where=where)):
            loaded = tokenizers.Tokenizer.from_str(text)
    except RunError:
        raise
    except Exception as error:  # the library raises nothing more specific
        raise RunError(f"is damaged, or no tokenizer: {error}", where=where) from None
    expected, found = _rules(assemble(empty_model(config.kind), config)), _rules(loaded)
    if config.unknown is None and found == _former(expected, config):
        config = config.model_copy(update={"unknown": SPECIALS[UNK]})
        loaded, found = assemble(loaded.model, config), expected
    fault = _difference(loaded, config, [part for part in expected if found.get(part) != expected[part]])
    if fault:
        raise RunError(fault, where=where, cure="restore the file, or learn the vocabulary again")
    return loaded, config


def _difference(loaded: tokenizers.Tokenizer, config: TextConfig, wrong: list[str]) -> str | None:
    """What in a file is not as weft would have written it."""
    if wrong:
        return f"is not a tokenizer of kind {config.kind!r} with these text settings ({', '.join(wrong)} differ)"
    vocab = loaded.get_vocab()
    if sorted(vocab.values()) != list(range(len(vocab))):
        return "has ids that are not 0, 1, 2, …"
    if [vocab.get(token) for token in SPECIALS] != list(range(len(SPECIALS))):
        return f"does not begin with {', '.join(SPECIALS)}"
    letters = {"word": [], "char": byte_tokens()}.get(config.kind, byte_letters())
    if not vocab.keys() >= set(letters):
        return "lacks some of the 256 bytes"
    return None


def _former(rules: dict[str, Any], config: TextConfig) -> dict[str, Any]:
    """The rules as they were written while special tokens were found in texts."""
    how = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": True}
    former = rules | {"added_tokens": [{"id": index, "content": token, **how} for index, token in enumerate(SPECIALS)]}
    if config.kind == "word":
        former["normalizer"] = {"type": "Lowercase"} if config.lowercase else None
        former["decoder"] = rules["decoder"] | {"decoders": rules["decoder"]["decoders"][1:]}
    return former


def _rules(tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    """The description of a tokenizer without what was learned."""
    description: dict[str, Any] = json.loads(tokenizer.to_str())
    for learned in ("vocab", "merges"):
        description["model"].pop(learned, None)
    return description
