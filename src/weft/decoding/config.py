"""Settings of the search."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from weft import limits
from weft.settings import Hypotheses, Length, Number, Seed, Settings, Signed, Unread


class DecodeConfig(Settings):
    """`[decode]`: how text is searched with the model."""

    beam: Hypotheses = 4
    """Hypotheses kept for each sentence at each step; 1 takes the likeliest token every time."""
    length_penalty: float = Field(default=1.0, ge=0.0, le=limits.LENGTH_PENALTY)
    """α in score = sum of log-probabilities / length^α, the end token counted; 1 is the mean, 0 the plain sum."""
    max_length: Length = 256
    """The most tokens of a hypothesis, the end token included."""
    min_length: int = Field(default=0, ge=0, le=limits.LENGTH_TOKENS)
    """The fewest tokens before the end token."""
    n_best: Hypotheses = 1
    """Hypotheses returned for each sentence, best first; when sampling, the number drawn."""
    stop: Literal["bound", "finished"] = "bound"
    """A sentence is done: when nothing can pass what has finished (bound), or when `finished` have finished."""
    finished: Hypotheses | None = None
    """stop = "finished": the number of finished hypotheses that end a sentence, or a group; by default its beam."""
    stop_at: list[Annotated[str, Field(min_length=1)]] = Field(default_factory=list, max_length=limits.STOP_STRINGS)
    """Strings at which a text stops; it ends before the first of them."""
    repetition_penalty: float = Field(default=1.0, gt=limits.TEMPERATURE, le=limits.NUMBER)
    """ρ: logits of tokens of the prompt and of the text so far are divided by ρ if positive, else multiplied by ρ."""
    frequency_penalty: Signed = 0.0
    """φ: each logit falls by φ for every time that the text so far has the token."""
    presence_penalty: Signed = 0.0
    """π: each logit falls by π if the text so far has the token."""
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

    @field_validator("stop_at", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return [value] if isinstance(value, str) else list(value) if isinstance(value, tuple) else value

    @field_validator("stop_at")
    @classmethod
    def _short(cls, strings: list[str]) -> list[str]:
        size = sum(len(one.encode("utf-8", "surrogatepass")) for one in strings)
        if size > limits.STOP_BYTES:
            raise ValueError(f"these strings have {size:,} bytes together, and {limits.STOP_BYTES} is the limit")
        if any(0xD800 <= ord(letter) <= 0xDFFF for one in strings for letter in one):
            raise ValueError("a string has bytes that are not UTF-8")
        return strings

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if not self.sample and self.n_best > self.beam:
            raise ValueError(f"n_best = {self.n_best} is more than beam = {self.beam}; raise beam")
        if self.min_length > self.max_length:
            raise ValueError(f"min_length = {self.min_length} is more than max_length = {self.max_length}")
        if not self.sample and self.beam % self.groups:
            raise ValueError(f"groups = {self.groups} does not divide beam = {self.beam}; make beam a multiple of it")
        if not self.sample and self.finished is not None and self.finished < min(self.n_best, self.width):
            raise ValueError(f"finished = {self.finished} is less than n_best = {self.n_best}; raise finished")
        return self

    def unread(self) -> Iterator[Unread]:
        if self.sample:
            for name in ("beam", "stop", "groups"):
                yield Unread(name, "only acts on search, not on sampling", "set sample = false, or remove it", (1,))
            yield Unread("finished", "only acts on search, not on sampling", "set sample = false, or remove it")
        else:
            for name in ("temperature", "top_k", "top_p", "min_p", "seed"):
                yield Unread(name, "only acts on sampling", "set sample = true, or remove it")
            if self.stop != "finished":
                yield Unread("finished", 'only acts with stop = "finished"', "set stop, or remove it")
            elif self.width == 1:
                yield Unread("finished", "only acts on a beam: greedy search ends with its text", "raise beam", (1,))
        if self.groups == 1:
            yield Unread("diversity", "only acts between groups", "set groups, or remove it")

    @property
    def width(self) -> int:
        """Hypotheses that compete with each other: those of a group, or when drawing all texts of a sentence."""
        return self.n_best if self.sample else self.beam // self.groups

    @property
    def penalises(self) -> bool:
        """Whether tokens that a text has already become more or less likely."""
        return self.repetition_penalty != 1.0 or self.frequency_penalty != 0.0 or self.presence_penalty != 0.0

    def greedy(self) -> Self:
        """The quickest search under the same limits and penalties: the likeliest token every time."""
        penalties = ("repetition_penalty", "frequency_penalty", "presence_penalty")
        kept = ("max_length", "min_length", "copy_unknown", "stop_at", *penalties)
        return type(self)(beam=1, **{name: getattr(self, name) for name in kept})
