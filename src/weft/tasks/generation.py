"""Generated text as an answer."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Final, Protocol

from torch import Tensor

from weft.data import Pair, Record, Text
from weft.decoding import Constraint, DecodeConfig, Hypothesis, SearchListener, StopStrings, search
from weft.decoding.search import NEVER
from weft.decoding.stops import compile_stops, cut_text
from weft.errors import ConfigError
from weft.tasks.results import Prediction
from weft.tasks.wording import Wording
from weft.text import UNK, Tokenizer
from weft.text.beginning import Beginning

NO_TEXT: Final = (
    "without a text: every text that the settings allow has the probability 0; lower --min-length, forbid less, or "
    "use a model with smoothing"
)
MISSES_WORDS: Final = "without all required words: raise --max-length; --json lists the missing ones"


@dataclass(frozen=True)
class Candidate:
    """One hypothesis as text; `score` is its length-normalised log-probability.

    Each token, and the end token where the text is `finished`, has a log-probability, a place of the beam (`path`) and
    a row of `attention` (steps, source tokens). `missing` are required words that did not fit into the length limit.
    `stopped` is the stop string before which the text ends; `tokens` then include its own, and there is no end token.
    """

    text: str
    score: float
    tokens: tuple[str, ...]
    log_probabilities: tuple[float, ...]
    finished: bool = True
    path: tuple[int, ...] = ()
    missing: tuple[str, ...] = ()
    stopped: str | None = None
    attention: Tensor | None = field(default=None, compare=False)
    copied: tuple[tuple[int, str], ...] = ()
    """Places of unknown tokens, and the words of the source that the text has there (`decode.copy_unknown`)."""

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
        if self.stopped is not None:
            found["stopped"] = self.stopped
        if self.copied:
            found["copied"] = [list(pair) for pair in self.copied]
        if self.attention is not None:
            found["attention"] = self.attention.tolist()
        return found


@dataclass(frozen=True)
class Generation(Prediction):
    """The texts that a model wrote for `source`, best first; none where settings and constraints allow none, or only
    texts with the probability 0. `source_tokens` are the columns of attention, where it was requested."""

    source: str
    candidates: tuple[Candidate, ...]
    source_tokens: tuple[str, ...] | None = None
    repeats: ClassVar[tuple[str, ...]] = ("source",)

    @property
    def text(self) -> str:
        return self.candidates[0].text if self.candidates else ""

    @property
    def score(self) -> float:
        return self.candidates[0].score if self.candidates else -math.inf

    @property
    def shortcoming(self) -> str | None:
        if not self.candidates:
            return NO_TEXT
        return MISSES_WORDS if self.candidates[0].missing else None

    def __str__(self) -> str:
        # One line of output for each line of input, also where the text has a line break.
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
    """The start of a search for the texts of a batch."""

    tokenizer: Tokenizer
    """The tokenizer of the texts that are written."""
    memory: Any
    prompts: Sequence[Sequence[int]] | None = None
    """The first tokens of each text."""
    typed: Sequence[str] | None = None
    """The first words of each text as the user wrote them, which the answer repeats as they are."""
    sources: Sequence[Sequence[int]] | None = None
    """The tokens that the model reads before each text, where it has no memory of the source."""
    forbid: Sequence[int] = NEVER
    """Tokens that are never written."""
    limits: Sequence[int] | None = None
    """The greatest number of tokens of each text."""

    def max_lengths(self, decode: DecodeConfig) -> list[int] | None:
        """The greatest number of tokens of each text, more than `min_length` requires."""
        return None if self.limits is None else [max(limit, decode.min_length + 1) for limit in self.limits]

    def beginnings(self, count: int) -> list[Beginning]:
        """The beginning of each of so many texts."""
        prompts: Sequence[Sequence[int]] = self.prompts or [()] * count
        typed: Sequence[str | None] = self.typed or [None] * count
        return [Beginning.of(self.tokenizer, *one) for one in zip(prompts, typed, strict=True)]

    def beginning(self, wordings: Sequence[Wording] | None) -> Question:
        """A question whose texts begin with the prefix of their wording."""
        if wordings is None or not any(wording.prefix for wording in wordings):
            return self
        if self.prompts is not None:
            cure = "write it at the end of the input"
            raise ConfigError("a language model goes on from its input", where="prefix", cure=cure)
        return replace(self, prompts=[wording.beginning(self.tokenizer) for wording in wordings])


class Generating(Protocol):
    """A task whose models write text: the part of `Task` that a search needs."""

    def question(self, model: Any, batch: Any, *, records: Sequence[Any]) -> Question:
        """The start of a search for the texts of a batch."""
        ...

    def source_tokens(self, model: Any, batch: Any) -> list[tuple[str, ...]] | None:
        """The tokens of each row that attention weights belong to; None where there is no source."""
        ...

    def source_words(self, records: Sequence[Any]) -> list[tuple[str, ...]]:
        """The word of each input at each place that attention weights belong to, or an empty text."""
        ...


@dataclass(frozen=True)
class Asked:
    """A batch whose texts are searched for: what the search needs, and what makes answers of its hypotheses."""

    question: Question
    records: Sequence[Text | Pair]
    decode: DecodeConfig
    wordings: Sequence[Wording]
    sources: Sequence[tuple[str, ...] | None]
    """The columns of attention of each text, where it was requested."""
    words: Sequence[Sequence[str] | None]
    """The words of each source, where the text may copy them."""
    prompts: Sequence[Beginning]

    @property
    def attention(self) -> bool:
        """Whether the search must keep attention weights."""
        return self.decode.copy_unknown or any(source is not None for source in self.sources)

    @cached_property
    def constraints(self) -> list[Constraint] | None:
        """The words that texts may not and must contain; None where no text has any."""
        return _constraints(self.question.tokenizer, self.wordings)

    def options(self) -> dict[str, Any]:
        """The keyword arguments of `search` and `prepare`."""
        return {
            "prefixes": self.question.prompts,
            "sources": self.question.sources,
            "limits": self.question.max_lengths(self.decode),
            "forbid": self.question.forbid,
            "keys": [key_of(record) for record in self.records] if self.decode.sample else None,
            "constraints": self.constraints,
            "stops": stops_of(self.question.tokenizer, self.decode),
        }

    def answer(self, row: int, hypotheses: Sequence[Hypothesis]) -> Generation:
        """The texts of a row of the batch."""
        source = self.sources[row]
        own = (
            _candidate(
                self.question.tokenizer,
                one,
                self.prompts[row],
                self.wordings[row],
                columns=None if source is None else len(source),
                words=self.words[row],
                stop_at=self.decode.stop_at,
            )
            for one in hypotheses
        )
        return Generation(self.records[row].title, tuple(own), source)


def ask(
    task: Generating,
    model: Any,
    batch: Any,
    *,
    records: Sequence[Text | Pair],
    decode: DecodeConfig,
    wordings: Sequence[Wording] | None = None,
    attention: bool = False,
) -> Asked:
    """Read a batch, so that a search can begin."""
    question = task.question(model, batch, records=records).beginning(wordings)
    sources = task.source_tokens(model, batch) if attention else [None] * len(records)
    if sources is None:
        raise ConfigError("the model has no source to attend to", where="attention", cure="leave it out")
    asked = wordings or [Wording()] * len(records)
    words = task.source_words(records) if decode.copy_unknown else [None] * len(records)
    return Asked(question, records, decode, asked, sources, words, question.beginnings(len(records)))


def generate(
    task: Generating,
    model: Any,
    batch: Any,
    *,
    records: Sequence[Text | Pair],
    decode: DecodeConfig,
    wordings: Sequence[Wording] | None = None,
    attention: bool = False,
    listener: SearchListener | None = None,
) -> list[Generation]:
    """Write a text for each record of a batch; attention weights are computed only on request, and to copy words. A
    listener is called at each step of the search, for a batch of one."""
    asked = ask(task, model, batch, records=records, decode=decode, wordings=wordings, attention=attention)
    found = search(
        model,
        asked.question.memory,
        len(records),
        decode,
        attention=asked.attention,
        listener=listener,
        **asked.options(),
    )
    return [asked.answer(row, hypotheses) for row, hypotheses in enumerate(found)]


def _constraints(tokenizer: Tokenizer, wordings: Sequence[Wording]) -> list[Constraint] | None:
    """The wordings as constraints on tokens; None where none constrains. Equal wordings are translated once."""
    if not any(wording.constrains for wording in wordings):
        return None
    made = {wording: wording.constraint(tokenizer) for wording in set(wordings)}
    return [made[wording] for wording in wordings]


def stops_of(tokenizer: Tokenizer, decode: DecodeConfig) -> StopStrings | None:
    """The stop strings of a search, with the text of each token; None where there are none."""
    return compile_stops(tokenizer, tuple(decode.stop_at)) if decode.stop_at else None


def key_of(record: Record) -> int:
    """A random seed that depends on the text of an input and not on its place in the batch."""
    return int.from_bytes(hashlib.blake2b(record.key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def _candidate(
    tokenizer: Tokenizer,
    one: Hypothesis,
    prompt: Beginning,
    wording: Wording,
    *,
    columns: int | None,
    words: Sequence[str] | None,
    stop_at: Sequence[str],
) -> Candidate:
    """A hypothesis as text, cut before a stop string, with the columns of its attention that are not padding, and
    copies of source words."""
    if one.attention is None and (columns is not None or words is not None):
        cure = "train a decoder with attention, such as context = after"
        where = "attention" if words is None else "copy_unknown"
        raise ConfigError("the model has no attention over the source", where=where, cure=cure)
    copied = {} if words is None or one.attention is None else copy_words(one.tokens, one.attention, words)
    places = {len(prompt.tokens) + place: word for place, word in copied.items()}
    text, stopped = prompt.show(tokenizer.decode([*prompt.tokens, *one.tokens], copied=places)), None
    if one.stopped:
        text, stopped = cut_text(text, stop_at, start=len(prompt.shown))
    return Candidate(
        text,
        one.score,
        tuple(tokenizer.tokens(one.tokens)),
        one.log_probabilities,
        one.finished,
        one.path,
        tuple(wording.require[number] for number in one.missing),
        stopped,
        None if one.attention is None or columns is None else one.attention[:, :columns],
        tuple(copied.items()),
    )


def copy_words(tokens: Sequence[int], attention: Tensor, words: Sequence[str]) -> dict[int, str]:
    """The source word with the most attention, for each place of the unknown token; attention (steps, S)."""
    places = [place for place, word in enumerate(words) if word]
    unknown = [place for place, token in enumerate(tokens) if token == UNK]
    if not places or not unknown:
        return {}
    nearest = attention[unknown][:, places].argmax(-1).tolist()
    return {place: words[places[column]] for place, column in zip(unknown, nearest, strict=True)}
