"""Chooses the tokens that a masked language model has to predict, and hides them from it.

    row       the  cat  sat  on  the  mat  <eos>
    spans     [the  cat] [sat] [on  the] [mat]          runs of neighbouring tokens or words, of random length
    chosen                      on  the                 spans in random order, up to a share of the row's tokens
    read      the  cat  sat <mask> big mat  <eos>       a chosen token becomes <mask>, a random token, or stays

Every random number is a hash of the seed, the epoch, the number of the row and the place in it. So the masks of a row
do not depend on its batch, differ from epoch to epoch, and are the same in a run that was resumed. N tokens in all.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from weft import limits
from weft.settings import Settings
from weft.text import MASK, SPECIALS, UNK, Tokenizer

Ids = NDArray[np.int64]
Flags = NDArray[np.bool_]

GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
FACTORS: Final = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
SHIFTS: Final = (np.uint64(30), np.uint64(27), np.uint64(31))
"""The constants of splitmix64 (Steele et al., 2014), a hash whose values pass as random numbers."""

SPANS, ORDER, LAST, TREATMENT, REPLACEMENT = range(5)
"""The decisions that random numbers are drawn for."""


class MaskConfig(Settings):
    """`[data.mask]`: the tokens that are hidden from a masked language model, drawn anew in every epoch."""

    share: float = Field(0.15, gt=0.0, lt=1.0)
    """Share of the tokens of a text that are chosen to be predicted; of every text at least one."""
    random: float = Field(0.1, ge=0.0, le=1.0)
    """Share of the chosen tokens that a random token replaces; <mask> replaces those that are neither this nor kept."""
    keep: float = Field(0.1, ge=0.0, le=1.0)
    """Share of the chosen tokens that the model reads as they are."""
    unit: Literal["token", "word"] = "token"
    """token: tokens are chosen one by one; word: all tokens of a word together."""
    span: float = Field(1.0, ge=1.0, le=limits.LENGTH_TOKENS)
    """Mean number of neighbouring tokens or words that are chosen together; 1 chooses each by itself."""

    @model_validator(mode="after")
    def _shares_of_one(self) -> MaskConfig:
        if self.random + self.keep > 1.0:
            raise ValueError(f"random = {self.random} and keep = {self.keep} are more than all chosen tokens together")
        return self


class Chance(NamedTuple):
    """Random numbers by place: the seed and the number of the epoch."""

    seed: int = 0
    epoch: int = 0

    def uniform(self, rows: Ids, places: Ids, decision: int) -> NDArray[np.float64]:
        """Numbers from 0 to 1, one for each place (N) of these rows (N)."""
        found = np.zeros(len(rows), dtype=np.uint64)
        for part in (self.seed, self.epoch, decision):
            found = _mix(found + np.full(len(rows), part % (1 << 64), dtype=np.uint64) * GOLDEN)
        for parts in (rows, places):
            found = _mix(found + parts.astype(np.uint64) * GOLDEN)
        numbers: NDArray[np.float64] = (found >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return numbers


def _mix(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    values = values + GOLDEN
    for shift, factor in zip(SHIFTS, FACTORS, strict=False):
        values = (values ^ (values >> shift)) * factor
    return values ^ (values >> SHIFTS[-1])


class Masked(NamedTuple):
    """The tokens that a model reads (N), and which of them it has to predict (N)."""

    read: Ids
    chosen: Flags


class Masking:
    """Masks rows of tokens of one vocabulary."""

    def __init__(self, config: MaskConfig, tokenizer: Tokenizer) -> None:
        self.config, self.vocabulary = config, len(tokenizer)
        self.begins = begins_word(tokenizer) if config.unit == "word" else np.ones(len(tokenizer), dtype=bool)

    def __call__(self, flat: Ids, lengths: Ids, rows: Ids, chance: Chance) -> Masked:
        """Tokens of rows laid end to end (N), the lengths (B) and the numbers (B) of the rows -> what is read."""
        starts = np.cumsum(lengths) - lengths
        places = np.arange(len(flat)) - np.repeat(starts, lengths)
        numbers = np.repeat(rows, lengths)
        chosen = self._choose(flat, np.repeat(np.arange(len(lengths)), lengths), numbers, places, chance)
        where = np.flatnonzero(chosen)
        treatment = chance.uniform(numbers[where], places[where], TREATMENT)
        drawn = chance.uniform(numbers[where], places[where], REPLACEMENT)
        others = np.minimum(len(SPECIALS) + drawn * (self.vocabulary - len(SPECIALS)), self.vocabulary - 1)
        read, config = flat.copy(), self.config
        replaced = np.where(treatment < config.keep + config.random, others.astype(np.int64), MASK)
        read[where] = np.where(treatment < config.keep, flat[where], replaced)
        return Masked(read, chosen)

    def _choose(self, flat: Ids, row: Ids, numbers: Ids, places: Ids, chance: Chance) -> Flags:
        """The chosen tokens (N); `row` (N) counts the rows of the batch, `numbers` (N) are those of the data."""
        real = (flat >= len(SPECIALS)) | (flat == UNK)
        if not real.any():
            return np.zeros(len(flat), dtype=bool)
        edge = (places == 0) | ~real | ~np.roll(real, 1)
        ends = chance.uniform(numbers, places, SPANS) < 1 / self.config.span
        begins = edge | (self.begins[flat] & ends)
        first = np.flatnonzero(begins)
        size = np.diff(np.append(first, len(flat)))
        order = np.lexsort((chance.uniform(numbers[first], places[first], ORDER), row[first]))
        order = order[real[first[order]]]  # the spans of each row in random order
        at, size = first[order], size[order]
        begins_row = np.diff(row[at], prepend=-1) > 0
        total = np.cumsum(size) - size
        before = total - np.maximum.accumulate(np.where(begins_row, total, 0))
        budget = self.config.share * np.bincount(row[real])[row[at]]
        # The span that passes the share is taken with the probability that makes the expected share exact.
        taken = np.zeros(len(first), dtype=bool)
        taken[order] = begins_row | (chance.uniform(numbers[at], places[at], LAST) < (budget - before) / size)
        chosen: Flags = taken[np.cumsum(begins) - 1]
        return chosen


def begins_word(tokenizer: Tokenizer) -> Flags:
    """Whether each entry of a vocabulary (V) begins a word: every word does, and a subword with a blank before it."""
    if tokenizer.kind == "word":
        return np.ones(len(tokenizer), dtype=bool)
    return np.array([not content or content[:1].isspace() for content in tokenizer.contents()])
