"""Generated text as an answer: the best hypothesis and the others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from weft.decoding import Hypothesis
from weft.decoding.score import score_tokens
from weft.models import LanguageModel, Translator
from weft.nn import length_mask
from weft.text import Tokenizer


@dataclass(frozen=True)
class Candidate:
    """One hypothesis as text; `score` is its length-normalised log-probability."""

    text: str
    score: float
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]

    def record(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "score": self.score,
            "tokens": list(self.tokens),
            "log_probabilities": list(self.log_probabilities),
        }


@dataclass(frozen=True)
class Generation:
    """What a model wrote for `source`, best candidate first."""

    source: str
    candidates: tuple[Candidate, ...]

    @property
    def text(self) -> str:
        return self.candidates[0].text

    @property
    def score(self) -> float:
        return self.candidates[0].score

    def __str__(self) -> str:
        # One line in, one line out: a generated line break must not add a line.
        return self.text.replace("\n", " ")

    def record(self) -> dict[str, Any]:
        best, *others = (candidate.record() for candidate in self.candidates)
        return {"source": self.source, **best, "others": others}


def generations(
    tokenizer: Tokenizer,
    sources: Sequence[str],
    found: Sequence[Sequence[Hypothesis]],
    *,
    prompts: Sequence[Sequence[int]] | None = None,
) -> list[Generation]:
    """Hypotheses of each source as text, which begins with the prompt where there was one."""
    return [
        Generation(source, tuple(_candidate(tokenizer, hypothesis, prompt) for hypothesis in hypotheses))
        for source, hypotheses, prompt in zip(sources, found, prompts or [()] * len(sources), strict=True)
    ]


def _candidate(tokenizer: Tokenizer, hypothesis: Hypothesis, prompt: Sequence[int]) -> Candidate:
    return Candidate(
        tokenizer.decode([*prompt, *hypothesis.tokens]),
        hypothesis.score,
        tuple(tokenizer.tokens(hypothesis.tokens)),
        hypothesis.log_probabilities,
    )


@dataclass(frozen=True)
class Scored:
    """What a model says of a given text: of each token and of the end its log-probability, and its rank from 1 on."""

    source: str | None
    text: str
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    ranks: tuple[int, ...]

    @property
    def total(self) -> float:
        """The log-probability of the text."""
        return math.fsum(self.log_probabilities)

    def record(self) -> dict[str, Any]:
        source = {} if self.source is None else {"source": self.source}
        return source | {
            "text": self.text,
            "log_probability": self.total,
            "tokens": list(self.tokens),
            "log_probabilities": list(self.log_probabilities),
            "ranks": list(self.ranks),
        }


@runtime_checkable
class Scoring(Protocol):
    """A task whose models give a probability to any text."""

    def score(self, model: nn.Module, batch: Any, *, records: Sequence[Any]) -> list[Scored]:
        """What the model says of the texts of a batch, in its order."""
        ...


def scored(
    model: LanguageModel | Translator,
    tokenizer: Tokenizer,
    hidden: Tensor,
    expected: Tensor,
    lengths: Tensor,
    *,
    texts: Sequence[tuple[str | None, str]],
) -> list[Scored]:
    """hidden (B, T, D) before the expected tokens (M) of rows of those lengths (B) -> one for each source and text."""
    found = score_tokens(model.output, hidden[length_mask(lengths, hidden.size(1))], expected)
    sizes = lengths.tolist()
    columns = zip(*(torch.split(part, sizes) for part in (expected, *found)), strict=True)
    return [
        Scored(source, text, tuple(tokenizer.tokens(ids.tolist())), tuple(logs.tolist()), tuple(ranks.tolist()))
        for (source, text), (ids, logs, ranks) in zip(texts, columns, strict=True)
    ]
