"""Settings of a server: what `weft serve` reads from its command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple

from weft.errors import ConfigError
from weft.serve.listening import is_loopback

MAX_MODELS: Final = 64
MAX_NAME: Final = 100


class NamedRun(NamedTuple):
    """A run folder, and the name of its model in requests."""

    name: str
    folder: Path


@dataclass(frozen=True)
class RequestLimits:
    """Limits of a request: sizes and seconds."""

    body_bytes: int = 4 << 20
    inputs: int = 256
    characters: int = 20_000
    """Characters of an input, and of a word or phrase of its options."""
    hypotheses: int = 16
    """`beam`, `n_best`, and `n` of a completion."""
    tokens: int = 1024
    """`max_length`, and `max_tokens` of a completion."""
    seconds: float = 30.0
    values: int = 2_000_000
    """Numbers and texts of an answer."""


@dataclass(frozen=True)
class ServerSettings:
    """All settings of a server."""

    runs: tuple[NamedRun, ...]
    host: str = "127.0.0.1"
    port: int = 8000
    keys: tuple[str, ...] = ()
    """API keys; without any every request is answered, which is possible only on the loopback address."""
    drain: float = 20.0
    workers: int = 1
    max_queue: int = 1024
    """Inputs that wait for their turn."""
    batch_tokens: int = 0
    """Tokens of the inputs that are computed together; 0 is what the device needs to be busy, 1 is one input."""
    log_text: bool = False
    imports: tuple[str, ...] = ()
    threads: int = 0
    device: str = "auto"
    reload_seconds: float = 2.0
    """Time between two looks at the manifest of a run; 0 never looks."""
    limits: RequestLimits = RequestLimits()

    def check(self) -> None:
        """Raise where the server would be open to the network without keys."""
        if not self.keys and not is_loopback(self.host):
            cure = "give --keys FILE or WEFT_API_KEYS, or listen on 127.0.0.1"
            raise ConfigError(
                "without API keys everybody on the network could use it", where=f"--host {self.host}", cure=cure
            )
        if self.max_queue < self.limits.inputs:
            what = f"is less than one request may have (--max-inputs {self.limits.inputs})"
            raise ConfigError(what, where=f"--max-queue {self.max_queue}", cure="raise it")


def name_runs(words: Sequence[str]) -> tuple[NamedRun, ...]:
    """Read RUN or NAME=RUN; the name of a run is by default that of its folder."""
    found: dict[str, NamedRun] = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not equals or "/" in name or Path(word).is_dir():
            name, folder = Path(word).resolve().name, word
        if not name or len(name) > MAX_NAME or not name.isprintable():
            raise ConfigError("is no name of a model", where=word, cure="give NAME=RUN")
        if name in found:
            cure = f"give one of them another name: other={folder}"
            raise ConfigError(f'"{name}" is the name of two models', where=word, cure=cure)
        found[name] = NamedRun(name, Path(folder))
    if len(found) > MAX_MODELS:
        raise ConfigError(f"{len(found)} runs, and {MAX_MODELS} is the limit", where="weft serve", cure="name fewer")
    return tuple(found.values())
