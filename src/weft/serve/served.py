"""A model that is served: a loaded run with what its requests share."""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import torch

from weft.decoding import DecodeConfig
from weft.disk import read_regular
from weft.documents import to_json
from weft.errors import ConfigError, RunError
from weft.limits import CONFIG_FILE_BYTES
from weft.nn.native.packed_linear import PackedWeights
from weft.run import Run
from weft.run.folder.files import MANIFEST
from weft.serve.api_errors import RequestError
from weft.serve.settings import RequestLimits
from weft.text.spelling import TokenSpelling, spelling_of

MAX_CACHED_OPTIONS: Final = 256
"""Combinations of options whose settings are kept: checking them takes as long as a step of a search."""

READ_GROWTH: Final = 1.02
"""The time of a read grows by this with every read, and falls to that of a faster one: of times that vary with the
number of inputs, about the least is kept."""

MAX_READ_SECONDS: Final = 0.05
"""The longest time that is kept for a read: the first compiles kernels, and sentences wait for a few times as long."""

PEAK_DECAY: Final = 0.98
"""The factor by which the peak falls with every few steps of a search."""

CountTokens = Callable[[str, str, int], None]
"""Called with the model's name, `read` or `written`, and how many."""


class Served:
    """One model. When its folder is written anew, another object takes its place; this one ends what it has begun."""

    def __init__(self, name: str, run: Run, mark: str, *, limits: RequestLimits, count: CountTokens) -> None:
        self.name, self.run, self.mark, self.limits = name, run, mark, limits
        self.task, self.model, self.config = run.task, run.model, run.config
        self.device: torch.device = next((one.device for one in run.model.parameters()), torch.device("cpu"))
        self.packed = PackedWeights()
        self.read_seconds = 0.0
        """Seconds in which a few inputs are read and join a search."""
        self.peak = 0.0
        """The most sentences that were advanced together, of late."""
        self.created = int(time.time())
        self._count = count
        self._decodes: OrderedDict[str, DecodeConfig] = OrderedDict()

    @cached_property
    def spelling(self) -> TokenSpelling:
        """The spelling of each token of a language model."""
        return spelling_of(self.task.tokenizer_of("decoder"))

    def count_tokens(self, direction: str, count: int) -> None:
        self._count(self.name, direction, count)

    def note_read(self, seconds: float) -> None:
        """Note how long it took until some inputs were read and had joined a search."""
        late = self.read_seconds * READ_GROWTH if self.read_seconds else MAX_READ_SECONDS
        self.read_seconds = min(seconds, late)

    def note_together(self, count: int) -> None:
        """Note that so many sentences were advanced together."""
        self.peak = max(count, self.peak * PEAK_DECAY)

    def decode(self, options: Mapping[str, Any]) -> DecodeConfig:
        """Return `[decode]` with the options of a request; raise for one that is unknown, or beyond the limits."""
        key = to_json(sorted(options.items(), key=lambda pair: pair[0]))
        found = self._decodes.get(key)
        if found is None:
            found = self._check(self.run.decode(options), options)
            self._decodes[key] = found
            if len(self._decodes) > MAX_CACHED_OPTIONS:
                self._decodes.popitem(last=False)
        return found

    def _check(self, decode: DecodeConfig, options: Mapping[str, Any]) -> DecodeConfig:
        bounds = {"beam": self.limits.hypotheses, "n_best": self.limits.hypotheses, "max_length": self.limits.tokens}
        for name, most in bounds.items():
            if name in options and getattr(decode, name) > most:
                raise ConfigError(
                    "is more than this server allows", where=f"{name} = {options[name]}", cure=f"at most {most}"
                )
        own = {name: min(getattr(decode, name), most) for name, most in bounds.items()}
        return decode.model_copy(update=own)

    def compute(self, kind: str, value: Any, records: Sequence[Any]) -> Sequence[Any]:
        """Return the scores, vectors or probabilities of inputs."""
        if kind == "score":
            return self.score(records, candidates=value)
        if kind == "embed":
            with self._named():
                return list(self.run.embed(records, level=value))
        found: Sequence[Any] = value.compute(self, records)
        return found

    def score(self, records: Sequence[Any], *, candidates: int = 0) -> Sequence[Any]:
        """Return the scores of inputs; raise for a model that gives no probability to texts, also without inputs."""
        with self._named():
            return self.run.score(records, candidates=candidates)

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Name the model in an error about its task: a request chooses a model, not a task."""
        try:
            yield
        except ConfigError as error:
            if error.where is None or not error.where.startswith("task = "):
                raise
            raise RequestError(f'"{self.name}" {error.what}', param="model", cure=error.cure) from None


def mark_of(folder: Path) -> str:
    """Return the hash of a run's manifest, which is written last whenever the run is."""
    if not folder.is_dir():
        raise RunError("is not a run folder", where=str(folder), cure="give the folder that `weft train` wrote")
    try:
        return hashlib.sha256(read_regular(folder / MANIFEST, most=CONFIG_FILE_BYTES)).hexdigest()
    except OSError as error:
        raise RunError(f"has no {MANIFEST} that can be read", where=str(folder), cure=error.strerror) from None
