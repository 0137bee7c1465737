"""Settings of the search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, Self

from pydantic import Field, model_validator

from weft import limits
from weft.settings import Hypotheses, Length, Number, Seed, Settings, Unread


class DecodeConfig(Settings):
    """`[decode]`: how text is searched with the model."""

    beam: Hypotheses = 4
    """Hypotheses kept for each sentence at each step; 1 takes the likeliest token every time."""
    length_penalty: float = Field(default=1.0, ge=0.0, le=limits.LENGTH_PENALTY)
    """α in score = sum of log-probabilities / length^α, the end token counted; 1 is the mean, 0 the plain sum."""
    max_length: Length = 256
    """The most tokens of a hypothesis, the end token included."""
    min_length: int = Field(default=0, ge=0, le=limits.LENGTH)
    """The fewest tokens before the end token."""
    n_best: Hypotheses = 1
    """Hypotheses returned for each sentence, best first; when sampling, the number drawn."""
    stop: Literal["bound", "finished"] = "bound"
    """A sentence is done: when nothing can pass what has finished (bound), or when as many as `beam` have finished."""
    groups: Hypotheses = 1
    """Diverse beams: equal parts of the beam that avoid each other's words; 1 is plain beam search."""
    diversity: Number = 0.5
    """Diverse beams: λ, what a token costs for each time that an earlier group has just chosen it."""
    copy_unknown: bool = False
    """Write the source word with the most attention where a translator of words writes the unknown token."""
    sample: bool = False
    """Draw tokens by their probability instead of searching for the best text."""
    temperature: float = Field(default=1.0, gt=limits.TEMPERATURE, le=limits.NUMBER)
    """Sampling: below 1 sharpens the distribution, above 1 flattens it."""
    top_k: int = Field(default=0, ge=0, le=limits.VOCABULARY)
    """Sampling: draw from the k likeliest tokens only; 0 is all."""
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    """Sampling: draw from the fewest likeliest tokens that together have this probability."""
    min_p: float = Field(default=0.0, ge=0.0, le=1.0)
    """Sampling: leave out tokens with less than this share of the likeliest one's probability."""
    seed: Seed = 0
    """Sampling: the same seed gives the same text."""

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if not self.sample and self.n_best > self.beam:
            raise ValueError(f"n_best = {self.n_best} is more than beam = {self.beam}; raise beam")
        if self.min_length > self.max_length:
            raise ValueError(f"min_length = {self.min_length} is more than max_length = {self.max_length}")
        if not self.sample and self.beam % self.groups:
            raise ValueError(f"groups = {self.groups} does not divide beam = {self.beam}; make beam a multiple of it")
        return self

    def unread(self) -> Iterator[Unread]:
        if self.sample:
            for name in ("beam", "stop", "groups"):
                yield Unread(name, "only acts on search, not on sampling", "set sample = false, or remove it", (1,))
        else:
            for name in ("temperature", "top_k", "top_p", "min_p", "seed"):
                yield Unread(name, "only acts on sampling", "set sample = true, or remove it")
        if self.groups == 1:
            yield Unread("diversity", "only acts between groups", "set groups, or remove it")

    @property
    def width(self) -> int:
        """Hypotheses that compete with each other: those of a group, or when drawing all texts of a sentence."""
        return self.n_best if self.sample else self.beam // self.groups

    def greedy(self) -> Self:
        """The quickest search under the same limits: the likeliest token every time."""
        kept = {name: getattr(self, name) for name in ("max_length", "min_length", "copy_unknown")}
        return type(self)(beam=1, **kept)
