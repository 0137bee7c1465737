"""Generated text as an answer: the best hypothesis and the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from weft.decoding import Hypothesis
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
