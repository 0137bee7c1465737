"""The probabilities that a model gives to the tokens of a text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from weft.decoding.score import TokenScores, score_tokens
from weft.metrics import LossTally
from weft.models import AnyLanguageModel, PairModel
from weft.nn import length_mask
from weft.tasks.results import ScoredText
from weft.text import SPECIALS, UNK, Tokenizer


@dataclass(frozen=True)
class Scored(ScoredText):
    """The log-probability and the rank, from 1 on, that a model gives to each token of a text and to its end."""

    source: str | None
    text: str
    tokens: tuple[str, ...]
    pieces: tuple[str, ...]
    """The tokens in readable form, as in `Tokenizer.pieces`."""
    log_probabilities: tuple[float, ...]
    ranks: tuple[int, ...]
    candidates: tuple[tuple[tuple[str, float], ...], ...] = ()
    """The likeliest tokens at each place in readable form, with their log-probabilities, where they were requested."""

    headings = ("token", "probability", "log-probability", "rank")

    @property
    def title(self) -> str:
        return self.text if self.source is None else f"{self.source} → {self.text}"

    def rows(self) -> list[tuple[str, ...]]:
        columns = zip(self.pieces, self.log_probabilities, self.ranks, strict=True)
        return [(token, f"{100 * math.exp(log):.2f}%", f"{log:.4f}", f"{rank:,}") for token, log, rank in columns]

    def add_to(self, tally: LossTally) -> None:
        tally.add(-self.total, len(self.tokens), self.tokens.count(SPECIALS[UNK]))

    @property
    def total(self) -> float:
        """The log-probability of the text."""
        return math.fsum(self.log_probabilities)

    def record(self) -> dict[str, Any]:
        source = {} if self.source is None else {"source": self.source}
        asked = {"candidates": [[list(one) for one in place] for place in self.candidates]} if self.candidates else {}
        return source | {
            "text": self.text,
            "log_probability": self.total,
            "tokens": list(self.tokens),
            "pieces": list(self.pieces),
            "log_probabilities": list(self.log_probabilities),
            "ranks": list(self.ranks),
            **asked,
        }


def scored(
    model: AnyLanguageModel | PairModel,
    tokenizer: Tokenizer,
    hidden: Tensor,
    expected: Tensor,
    lengths: Tensor,
    *,
    texts: Sequence[tuple[str | None, str]],
    candidates: int = 0,
) -> list[Scored]:
    """Score texts: hidden (B, T, D) before the expected tokens (M) of rows of these lengths (B) -> one result each."""
    inside = length_mask(lengths, hidden.size(1))
    found = score_tokens(model.output, hidden[inside], expected, candidates=candidates)
    columns = zip(*(torch.split(part, lengths.tolist()) for part in (expected, *found)), strict=True)
    return [
        scored_text(tokenizer, ids, TokenScores(*parts), source=source, text=text)
        for (source, text), (ids, *parts) in zip(texts, columns, strict=True)
    ]


def scored_text(tokenizer: Tokenizer, ids: Tensor, found: TokenScores, *, source: str | None, text: str) -> Scored:
    """One text of M tokens with its scores."""
    numbers = ids.tolist()
    candidates = tuple(
        tuple(zip(tokenizer.pieces(tokens), logs, strict=True))
        for tokens, logs in zip(found.candidates.tolist(), found.candidate_logs.tolist(), strict=True)
        if tokens
    )
    return Scored(
        source,
        text,
        tuple(tokenizer.tokens(numbers)),
        tuple(tokenizer.pieces(numbers)),
        tuple(found.log_probabilities.tolist()),
        tuple(found.ranks.tolist()),
        candidates,
    )
