"""API keys: read from a file and the environment, compared in a time that does not depend on where they differ."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from weft.disk import read_regular
from weft.errors import ConfigError
from weft.serve.errors import HTTPError

VARIABLE: Final = "WEFT_API_KEYS"
"""The environment variable with keys, separated by commas, blanks or line ends."""

MIN_CHARACTERS: Final = 16
MAX_FILE_BYTES: Final = 1 << 20


def read_keys(path: Path | None, environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the keys of a file, one on each line (# begins a comment), and of the environment."""
    found = [(word, VARIABLE) for word in environment.get(VARIABLE, "").replace(",", " ").split()]
    if path is not None:
        try:
            text = read_regular(path, most=MAX_FILE_BYTES, follow=True).decode("utf-8")
        except UnicodeDecodeError:
            raise ConfigError(
                "is no text in UTF-8", where=f"--keys {path}", cure="write one key on each line"
            ) from None
        lines = [line.partition("#")[0].strip() for line in text.splitlines()]
        found += [(line, f"{path}:{number}") for number, line in enumerate(lines, start=1) if line]
        if not any(lines):
            raise ConfigError("has no key", where=f"--keys {path}", cure="write one key on each line")
    for key, where in found:
        if len(key) < MIN_CHARACTERS or not key.isascii() or not key.isprintable() or " " in key:
            cure = f"a key has at least {MIN_CHARACTERS} letters, digits and signs: openssl rand -hex 24"
            raise ConfigError("has a key that can be guessed, or that no header can carry", where=where, cure=cure)
    return tuple(dict.fromkeys(key for key, _ in found))


class Keys:
    """The keys of a server; none at all lets every request through."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._digests = [_digest(key.encode()) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def check(self, authorization: bytes | None) -> None:
        """Raise unless the header is `Bearer KEY` with a key of this server."""
        if not self._digests:
            return
        scheme, _, given = (authorization or b"").strip().partition(b" ")
        # Digests have one length, and every key is compared: the time says nothing of any of them.
        digest = _digest(given.strip())
        matches = [hmac.compare_digest(digest, known) for known in self._digests]
        if scheme.lower() != b"bearer" or not any(matches):
            what = "no API key" if authorization is None else "the API key is wrong"
            raise HTTPError(401, what, cure="send Authorization: Bearer KEY")


def _digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
