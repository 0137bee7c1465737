"""Generated text as an answer: the best hypothesis and the others."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor

from weft.data import Record
from weft.decoding import Constraint, DecodeConfig, Hypothesis, search
from weft.decoding.score import score_tokens
from weft.errors import ConfigError
from weft.models import LanguageModel, Translator
from weft.nn import length_mask
from weft.tasks.results import Prediction
from weft.tasks.wording import Wording
from weft.text import Tokenizer


@dataclass(frozen=True)
class Candidate:
    """One hypothesis as text; `score` is its length-normalised log-probability.

    There is a log-probability, a place of the beam (`path`) and a row of `attention` (steps, source tokens) for each
    token and for the end, which `finished` says it came to. `missing` are required words that the length limit left no
    room for.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    finished: bool = True
    path: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    attention: Tensor | None = field(default=None, compare=False)

    def record(self) -> dict[str, Any]:
        found = {
            "text": self.text,
            "score": self.score,
            "tokens": list(self.tokens),
            "log_probabilities": list(self.log_probabilities),
            "finished": self.finished,
            "path": list(self.path),
            "missing": list(self.missing),
        }
        if self.attention is not None:
            found["attention"] = self.attention.tolist()
        return found


@dataclass(frozen=True)
class Generation(Prediction):
    """What a model wrote for `source`, best candidate first; none where nothing may be said. `source_tokens` are what
    attention looks at, where it was asked for."""

    source: str
    candidates: tuple[Candidate, ...]
    source_tokens: tuple[str, ...] | None = None

    @property
    def text(self) -> str:
        return self.candidates[0].text if self.candidates else ""

    @property
    def score(self) -> float:
        return self.candidates[0].score if self.candidates else -math.inf

    @property
    def lacks(self) -> bool:
        """Whether the text misses something that it was required to say."""
        return bool(self.candidates and self.candidates[0].missing)

    def __str__(self) -> str:
        # One line in, one line out: a generated line break must not add a line.
        return self.text.replace("\n", " ")

    def record(self) -> dict[str, Any]:
        best, *others = [candidate.record() for candidate in self.candidates] or [{"text": ""}]
        read = {} if self.source_tokens is None else {"source_tokens": list(self.source_tokens)}
        return {"source": self.source, **read, **best, "others": others}

    def line(self, *, probabilities: bool = False) -> str:
        parts = ((candidate.text.replace("\n", " "), f"{candidate.score:.4g}") for candidate in self.candidates)
        return "\t".join(part for text, score in parts for part in ((text, score) if probabilities else (text,)))

    def cells(self, name: str, *, probabilities: bool = False) -> dict[str, Any]:
        texts = {
            name if number == 1 else f"{name}_{number}": candidate.text
            for number, candidate in enumerate(self.candidates, start=1)
        }
        return texts | ({"score": self.score} if probabilities and self.candidates else {})


def text_columns(name: str, *, n_best: int, probabilities: bool) -> list[str]:
    """The columns of `Generation.cells`."""
    others = [f"{name}_{number}" for number in range(2, n_best + 1)]
    return [name, *others, *(["score"] if probabilities else [])]


@dataclass(frozen=True)
class Question:
    """What a search for the answers to a batch starts from."""

    tokenizer: Tokenizer
    """Of the texts that are written."""
    memory: Any
    prompts: Sequence[Sequence[int]] | None = None
    """What each text begins with."""
    limits: Sequence[int] | None = None
    """The most tokens of each."""

    def room(self, decode: DecodeConfig) -> list[int] | None:
        """The most tokens of each text; who must write more than that may."""
        return None if self.limits is None else [max(limit, decode.min_length + 1) for limit in self.limits]

    def beginning(self, wordings: Sequence[Wording] | None) -> Question:
        """The same, where each text is made to begin as its wording asks."""
        if wordings is None or not any(wording.prefix for wording in wordings):
            return self
        if self.prompts is not None:
            cure = "write it at the end of the input"
            raise ConfigError("what a language model writes begins with its input", where="prefix", cure=cure)
        return replace(self, prompts=[wording.beginning(self.tokenizer) for wording in wordings])


class Generating(Protocol):
    """A task whose models write text: the part of `Task` that a search needs."""

    def question(self, model: Any, batch: Any, *, records: Sequence[Any]) -> Question:
        """What to search for in a batch."""
        ...

    def source_tokens(self, batch: Any) -> list[tuple[str, ...]] | None:
        """The tokens of each row that attention looks at; None where there is no source."""
        ...


def generate(
    task: Generating,
    model: Any,
    batch: Any,
    *,
    records: Sequence[Record],
    decode: DecodeConfig,
    wordings: Sequence[Wording] | None = None,
    attention: bool = False,
) -> list[Generation]:
    """What the model writes for each record of a batch. Without `attention` nobody has to compute it."""
    question = task.question(model, batch, records=records).beginning(wordings)
    sources = task.source_tokens(batch) if attention else [None] * len(records)
    if sources is None:
        raise ConfigError("the model reads no source that it could look at", where="attention", cure="leave it out")
    found = search(
        model,
        question.memory,
        len(records),
        decode,
        prefixes=question.prompts,
        limits=question.room(decode),
        keys=[key_of(record) for record in records] if decode.sample else None,
        constraints=_constraints(question.tokenizer, wordings or ()),
        attention=attention,
    )
    prompts, asked = question.prompts or [()] * len(records), wordings or [Wording()] * len(records)
    answers = []
    for record, hypotheses, prompt, wording, source in zip(records, found, prompts, asked, sources, strict=True):
        columns = None if source is None else len(source)
        own = (_candidate(question.tokenizer, one, prompt, wording, columns) for one in hypotheses)
        answers.append(Generation(record.key, tuple(own), source))
    return answers


def _constraints(tokenizer: Tokenizer, wordings: Sequence[Wording]) -> list[Constraint] | None:
    """Wordings in tokens, where there is one that constrains; most texts ask for the same."""
    if not any(wording.constrains for wording in wordings):
        return None
    made = {wording: wording.constraint(tokenizer) for wording in set(wordings)}
    return [made[wording] for wording in wordings]


def key_of(record: Record) -> int:
    """A number for an input, so that chance depends on what is asked and not on where it stands."""
    return int.from_bytes(hashlib.blake2b(record.key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _candidate(
    tokenizer: Tokenizer, one: Hypothesis, prompt: Sequence[int], wording: Wording, columns: int | None
) -> Candidate:
    """A hypothesis as text; of its attention those columns that are not padding."""
    if columns is not None and one.attention is None:
        cure = "train a decoder with attention, such as context = after"
        raise ConfigError("the model has none", where="attention", cure=cure)
    return Candidate(
        tokenizer.decode([*prompt, *one.tokens]),
        one.score,
        tuple(tokenizer.tokens(one.tokens)),
        one.log_probabilities,
        one.finished,
        one.path,
        tuple(wording.require[number] for number in one.missing),
        None if one.attention is None else one.attention[:, :columns],
    )


@dataclass(frozen=True)
class Scored:
    """What a model says of a given text: of each token and of the end its log-probability, and its rank from 1 on."""

    source: str | None
    text: str
    tokens: tuple[str, ...]
    pieces: tuple[str, ...]
    """The tokens for people to read, as in `Tokenizer.pieces`."""
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
            "pieces": list(self.pieces),
            "log_probabilities": list(self.log_probabilities),
            "ranks": list(self.ranks),
        }


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
    scored = []
    for (source, text), parts in zip(texts, columns, strict=True):
        ids, logs, ranks = (part.tolist() for part in parts)
        names = tuple(tokenizer.tokens(ids)), tuple(tokenizer.pieces(ids))
        scored.append(Scored(source, text, *names, tuple(logs), tuple(ranks)))
    return scored
