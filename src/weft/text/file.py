"""Reading a tokenizer.json, and refusing one that does not do what the config says.

A file can make the library pad, truncate, drop tokens at random or match a pattern that never ends. So everything
in it but the vocabulary must be what weft itself would have written.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers

from weft.errors import RunError
from weft.text.config import TextConfig
from weft.text.pipeline import assemble, byte_letters, byte_tokens, empty_model, no_panic


def read_tokenizer(path: Path, config: TextConfig) -> tokenizers.Tokenizer:
    """Load and check a file; whatever is wrong with it is a `RunError` that names it."""
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
    fault = _difference(loaded, config)
    if fault:
        raise RunError(fault, where=where, cure="restore the file, or learn the vocabulary again")
    return loaded


def _difference(loaded: tokenizers.Tokenizer, config: TextConfig) -> str | None:
    """What in a file is not as weft would have written it."""
    expected, found = _rules(assemble(empty_model(config.kind), config)), _rules(loaded)
    wrong = [part for part in expected if found.get(part) != expected[part]]
    if wrong:
        return f"is not a tokenizer of kind {config.kind!r} with these text settings ({', '.join(wrong)} differ)"
    vocab = loaded.get_vocab()
    if sorted(vocab.values()) != list(range(len(vocab))):
        return "has ids that are not 0, 1, 2, …"
    letters = {"word": [], "char": byte_tokens()}.get(config.kind, byte_letters())
    if not vocab.keys() >= set(letters):
        return "lacks some of the 256 bytes"
    return None


def _rules(tokenizer: tokenizers.Tokenizer) -> dict[str, Any]:
    """The description of a tokenizer without what was learned."""
    description: dict[str, Any] = json.loads(tokenizer.to_str())
    for learned in ("vocab", "merges"):
        description["model"].pop(learned, None)
    return description
