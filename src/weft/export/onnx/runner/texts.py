"""Tasks that write text: searches for many inputs, streams one, scores pairs."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from weft.arguments import read_flag
from weft.errors import ConfigError, DataError, counted
from weft.export.onnx.runner.answering import Answering
from weft.export.onnx.runner.graphs import Array, pad
from weft.export.onnx.runner.options import SearchOptions
from weft.export.onnx.runner.rows import Rows
from weft.export.onnx.runner.sampling import Sampling
from weft.export.onnx.runner.search import Asked, Hypothesis, Search, log_softmax
from weft.text import EOS, SOS, UNK, Tokenizer
from weft.text.beginning import Beginning
from weft.text.pieces import TextPieces

MAX_ROWS: Final = 128
"""The most rows of a step: more would only wait for the longest text among them."""

MAX_SEARCH_POSITIONS: Final = 16_384
"""The most positions of sources, or of prompts, in the rows of a search: hypotheses and padding included."""

PER_INPUT: Final = ("prefix", "language")
"""Options that are one for all inputs, or a list with one for each."""

WORDING: Final = ("prefix", "forbid_unknown", "language", "attention")


class Given(NamedTuple):
    """One input: its name in an answer, the key of its random numbers, the arrays or tokens that "encode" reads, the
    tokens that are read before the text, the first tokens of the text and how they were typed, and its most tokens."""

    title: str
    key: str
    source: Any
    before: Sequence[int]
    prompt: Sequence[int]
    typed: str | None
    limit: int
    columns: tuple[str, ...] = ()
    """The names of the source's positions, for attention."""
    words: tuple[str, ...] = ()
    """The words of the source's positions, to be copied."""


class WritesText(Answering):
    """The base of the runners of tasks that write text."""

    encodes: ClassVar[bool] = True
    """Whether there is a source beside the text."""
    target: Tokenizer

    @abstractmethod
    def given(self, source: Any, wording: Mapping[str, Any], options: SearchOptions) -> Given:
        """An input as the search takes it."""

    def predict(self, inputs: Sequence[Any], options: Mapping[str, Any]) -> list[dict[str, Any]]:
        wording, search = self._read_options(options, len(inputs))
        given = [self.given(source, own, search) for source, own in zip(inputs, wording, strict=True)]
        attention, found = read_flag("attention", options.get("attention", False)), dict[int, list[Hypothesis]]()
        for group in self._groups(given, search):
            hypotheses = self._search([given[number] for number in group], search, wording, attention=attention)
            found |= dict(zip(group, hypotheses, strict=True))
        return [self._record(one, found[number], search, attention=attention) for number, one in enumerate(given)]

    def stream(self, source: Any, options: Mapping[str, Any]) -> Iterator[str]:
        wording, search = self._read_options(options, 1)
        if search.sample and search.n_best > 1:
            raise ConfigError(f"n_best = {search.n_best} texts cannot be streamed together", where="stream")
        if search.copy_unknown:
            raise ConfigError("needs the whole text", where="copy_unknown = true", cure="do not stream")
        one = self.given(source, wording[0], search)
        beginning = Beginning.of(self.target, one.prompt, one.typed)
        pieces, running, sent = TextPieces(self.target), self._start([one], search, wording), 0
        first = pieces.begin(beginning)
        if first:
            yield first
        while not running.over:
            running.step()
            sure = (
                (running.found[0][0].tokens if running.found[0] else ())
                if running.over
                else common(running.open_texts())
            )
            if len(sure) > sent:
                said, sent = pieces.add(sure[sent:]), len(sure)
                if said:
                    yield said
        last = pieces.finish()
        if last:
            yield last

    def score(self, inputs: Sequence[Any]) -> list[dict[str, Any]]:
        return [self._score(*self.to_score(item)) for item in inputs]

    @abstractmethod
    def to_score(self, item: Any) -> tuple[Given, str]:
        """An item of `score`: its source and the text that is scored."""

    def _score(self, one: Given, text: str) -> dict[str, Any]:
        """The log-probability and the rank of each token of a text and of its end."""
        ids = [*self.target.encode(text), EOS]
        rows = self._rows([one], 1)
        read = [*one.before, SOS, *ids[:-1]]
        logs = log_softmax(rows.read(np.array([read]))[0, len(one.before) :])
        expected = logs[np.arange(len(ids)), ids]
        ranks = 1 + (logs > expected[:, None]).sum(1)
        source = {"source": one.title} if self.encodes or one.before else {}
        return source | {
            "text": text,
            "log_probability": float(expected.astype(np.float64).sum()),
            "tokens": self.target.tokens(ids),
            "pieces": self.target.pieces(ids),
            "log_probabilities": expected.tolist(),
            "ranks": ranks.tolist(),
        }

    def _read_options(self, options: Mapping[str, Any], count: int) -> tuple[list[dict[str, Any]], SearchOptions]:
        """The wording of each text, and the options of the search."""
        search = self.defaults.changed({name: value for name, value in options.items() if name not in WORDING})
        wording = []
        for name in PER_INPUT:
            value = options.get(name)
            values = list(value) if isinstance(value, list | tuple) else [value] * count
            if len(values) != count:
                raise ConfigError(
                    f"{len(values)} are given for {counted(count, 'text')}", where=name, cure="one for each"
                )
            if wrong := [one for one in values if not isinstance(one, str | None)]:
                raise ConfigError(f"{wrong[0]!r:.40} is no text", where=name, cure="give a text, or one for each input")
            wording.append(values)
        unknown = read_flag("forbid_unknown", options.get("forbid_unknown", False))
        return [
            {"prefix": one, "language": other, "forbid_unknown": unknown} for one, other in zip(*wording, strict=True)
        ], search

    def _groups(self, given: Sequence[Given], options: SearchOptions) -> Iterator[list[int]]:
        """The numbers of inputs that are searched together: with prompts of one length, and sources of about one."""
        each = max(1, MAX_ROWS // options.width)
        by_length: dict[int, list[int]] = {}
        for number, one in enumerate(given):
            by_length.setdefault(len(one.before) + len(one.prompt), []).append(number)
        for prompt, numbers in by_length.items():
            sources = {number: 0 if given[number].source is None else len(given[number].source) for number in numbers}
            group: list[int] = []
            for number in sorted(numbers, key=sources.__getitem__):
                positions = (len(group) + 1) * options.width * max(prompt, sources[number])
                if group and (len(group) == each or positions > MAX_SEARCH_POSITIONS):
                    yield group
                    group = []
                group.append(number)
            yield group

    def _rows(self, given: Sequence[Given], width: int) -> Rows:
        """The rows before the first token."""
        if not self.encodes:
            return Rows.start(self.graphs, len(given) * width)
        rows = Rows.start(self.graphs, len(given), self.source_inputs([one.source for one in given]))
        rows.select(np.repeat(np.arange(len(given)), width))
        return rows

    def source_inputs(self, sources: Sequence[Any]) -> dict[str, Array]:
        """The inputs of "encode"."""
        tokens, lengths = pad(sources)
        return {"tokens": tokens, "source_lengths": lengths}

    def _start(
        self,
        given: Sequence[Given],
        options: SearchOptions,
        wording: Sequence[Mapping[str, Any]],
        *,
        attention: bool = False,
    ) -> Search:
        """The search after the prompts."""
        rows = self._rows(given, options.width)
        reads = [[*one.before, SOS, *one.prompt] for one in given]
        longest = self.facts["longest"]
        limits = []
        for one, tokens in zip(given, reads, strict=True):
            limit = min(one.limit, options.max_length)
            if longest is not None:
                if len(tokens) - 1 >= longest:
                    what = f"a prompt of {len(tokens) - 1} tokens leaves no position of model.max_positions = {longest}"
                    raise DataError(what, cure="shorten it")
                limit = min(limit, longest - len(tokens) + 1)
            limits.append(limit)
        if len(reads[0]) > 1:
            rows.read(np.repeat(np.array([tokens[:-1] for tokens in reads]), options.width, axis=0))
        forbid = [*self.facts["forbid"], *([UNK] if wording[0]["forbid_unknown"] else [])]
        keys = [key_of(one.key) for one in given]
        asked = Asked([tokens[-1] for tokens in reads], limits, forbid, keys, [one.prompt for one in given])
        kind = Sampling if options.sample else Search
        return kind(rows, asked, options, attention=attention)

    def _search(
        self, given: Sequence[Given], options: SearchOptions, wording: Sequence[Mapping[str, Any]], *, attention: bool
    ) -> list[list[Hypothesis]]:
        running = self._start(given, options, wording, attention=attention or options.copy_unknown)
        while not running.over:
            running.step()
        return running.found

    def _record(
        self, one: Given, found: Sequence[Hypothesis], options: SearchOptions, *, attention: bool
    ) -> dict[str, Any]:
        beginning = Beginning.of(self.target, one.prompt, one.typed)
        records = [self._candidate(one, each, beginning, options, attention=attention) for each in found]
        first, *others = records or [{"text": ""}]
        columns = {"source_tokens": list(one.columns)} if attention else {}
        return {"source": one.title, **columns, **first, "others": others}

    def _candidate(
        self, one: Given, found: Hypothesis, beginning: Beginning, options: SearchOptions, *, attention: bool
    ) -> dict[str, Any]:
        if found.attention is None and (attention or options.copy_unknown):
            where = "copy_unknown" if options.copy_unknown else "attention"
            raise ConfigError("the model has no attention over the source", where=where, cure="leave it out")
        copied = copy_words(found, one.words) if options.copy_unknown else {}
        places = {len(beginning.tokens) + place: word for place, word in copied.items()}
        text = beginning.show(self.target.decode([*beginning.tokens, *found.tokens], copied=places))
        record: dict[str, Any] = {
            "text": text,
            "score": found.score,
            "tokens": self.target.tokens(found.tokens),
            "log_probabilities": list(found.log_probabilities),
            "finished": found.finished,
            "path": list(found.path),
            "missing": [],
        }
        if copied:
            record["copied"] = [list(pair) for pair in copied.items()]
        if attention and found.attention is not None:
            record["attention"] = found.attention[:, : len(one.columns)].tolist()
        return record


def copy_words(found: Hypothesis, words: Sequence[str]) -> dict[int, str]:
    """The source word with the most attention, for each place of the unknown token."""
    places = [place for place, word in enumerate(words) if word]
    unknown = [place for place, token in enumerate(found.tokens) if token == UNK]
    if not places or not unknown or found.attention is None:
        return {}
    nearest = found.attention[unknown][:, places].argmax(-1)
    return {place: words[places[column]] for place, column in zip(unknown, nearest.tolist(), strict=True)}


def key_of(text: str) -> int:
    """A random seed that depends on the text of an input and not on its place."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")


def common(texts: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The beginning that all texts share."""
    pairs = list(zip(min(texts), max(texts), strict=False)) if texts else []
    size = next((place for place, (one, other) in enumerate(pairs) if one != other), len(pairs))
    return tuple(one for one, _ in pairs[:size])
