"""The probabilities of the tokens of a completion, with the likeliest others at each place, in one pass."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple

import torch

from weft.decoding.score import score_tokens
from weft.nn import length_mask
from weft.serve.served import Served
from weft.text import SOS


class TokenTexts(NamedTuple):
    """The tokens of a text, prompt included, of which those from `first` on are asked for."""

    tokens: tuple[int, ...]
    first: int

    @property
    def size(self) -> int:
        return len(self.tokens)


class TokenScore(NamedTuple):
    """A token as text, its log-probability, and the likeliest tokens at its place."""

    text: str
    log_probability: float
    likeliest: dict[str, float]


class TextScores:
    """Computes the probabilities of several texts together."""

    def __init__(self, candidates: int) -> None:
        self.candidates = candidates

    def compute(self, served: Served, texts: Sequence[TokenTexts]) -> list[list[TokenScore]]:
        """Return the tokens asked for, with their scores."""
        asked = [text for text in texts if text.tokens]
        found = iter(self._compute(served, asked) if asked else ())
        return [next(found) if text.tokens else [] for text in texts]

    @torch.inference_mode()
    def _compute(self, served: Served, texts: Sequence[TokenTexts]) -> list[list[TokenScore]]:
        model: Any = served.model
        lengths = torch.tensor([len(text.tokens) for text in texts])
        longest = int(lengths.max())
        rows = [[SOS, *text.tokens[:-1], *[0] * (longest - len(text.tokens))] for text in texts]
        hidden = model(torch.tensor(rows, device=served.device), lengths.to(served.device))
        expected = torch.tensor([token for text in texts for token in text.tokens], device=served.device)
        inside = length_mask(lengths.to(served.device), hidden.size(1))
        scores = score_tokens(model.output, hidden[inside], expected, candidates=self.candidates)
        logs, ids, others = (
            scores.log_probabilities.tolist(),
            scores.candidates.tolist(),
            scores.candidate_logs.tolist(),
        )
        found, at = [], 0
        for text in texts:
            spelled = spell_each(served, text.tokens)
            own = []
            for place, (token, spelling) in enumerate(zip(text.tokens, spelled, strict=True)):
                if place >= text.first:
                    likeliest = {show_token(served, one): log for one, log in zip(ids[at], others[at], strict=True)}
                    if self.candidates:
                        likeliest[show_token(served, token)] = logs[at]
                    own.append(TokenScore(spelling, logs[at], likeliest))
                at += 1
            found.append(own)
        return found


def spell_each(served: Served, tokens: Sequence[int]) -> list[str]:
    """The text that each token adds to those before it; joined they are the text. A character of several tokens is that
    of the last of them."""
    spelling, decoder = served.spelling, getincrementaldecoder("utf-8")("replace")
    found, state = [], spelling.state(())
    for token in tokens:
        found.append(decoder.decode(spelling.added[state][token]))
        after = spelling.after[token]
        state = state if after is None else after
    return found


def tokens_of_text(served: Served, before: Sequence[int], tokens: Sequence[int], text: str) -> list[int]:
    """The first tokens after those before them that spell a text, which ends before its stop string; the last one may
    reach into that."""
    starts = accumulate(map(len, spell_each(served, [*before, *tokens])[len(before) :]), initial=0)
    return [token for token, start in zip(tokens, starts, strict=False) if start < len(text)]


def show_token(served: Served, token: int) -> str:
    """A token by itself, as a key of `top_logprobs`."""
    tokenizer = served.task.tokenizer  # type: ignore[attr-defined]
    return str(tokenizer.pieces([token])[0]).replace("▁", " ")


def show_logprobs(scores: Sequence[TokenScore], text: str) -> dict[str, Any]:
    """Return the scores in OpenAI's form; offsets are those of the tokens in the text of the answer."""
    offsets, at = [], 0
    for one in scores:
        offsets.append(min(at, len(text)))
        at += len(one.text)
    return {
        "tokens": [one.text for one in scores],
        "token_logprobs": [one.log_probability for one in scores],
        "top_logprobs": [one.likeliest for one in scores] if any(one.likeliest for one in scores) else None,
        "text_offset": offsets,
    }
