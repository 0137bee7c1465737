"""`Run`, a trained model with all it needs to predict, score and evaluate; `weft.train` and `weft.load` return one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import NDArray
from torch import nn

from weft import limits
from weft.arguments import read_flag, read_texts, read_whole, wrong
from weft.charts import check_format, draw
from weft.config import Config, validate
from weft.config.schema import positions
from weft.data import BadLines, Record, read_input, read_language, write_vectors
from weft.data.vectors import Format
from weft.decoding import DecodeConfig, SearchListener
from weft.errors import ConfigError, DataError, counted
from weft.evaluate import Evaluation, evaluate, predict, score, stream
from weft.models.vectors import Neighbour
from weft.run.inputs import each_input, find_source, read_records
from weft.run.report import read_report
from weft.run.vectors import Embedded, Level, embed_records, find_neighbours, word_table
from weft.tasks import TASKS, DataConfig, Prediction, Task, encode, encode_evaluation
from weft.tasks.results import ScoredText
from weft.tasks.wording import Words, read_wordings

SAMPLING_SETTINGS = {"temperature", "top_k", "top_p", "min_p"}
BEAM_SETTINGS = {"beam", "stop", "finished", "groups", "diversity"}


class Run:
    """A trained model with its task, configuration and folder."""

    def __init__(self, folder: Path, config: Config, task: Task, model: nn.Module) -> None:
        self.folder, self.config, self.task, self.model = folder, config, task, model

    @property
    def report(self) -> dict[str, Any]:
        """Scores on validation and test data, size, speed, versions."""
        return read_report(self.folder)

    @overload
    def predict(self, inputs: str | Mapping[str, Any] | Record, **options: Any) -> Prediction: ...

    @overload
    def predict(self, inputs: Iterable[Any], **options: Any) -> list[Prediction]: ...

    def predict(
        self,
        inputs: Iterable[Any] | Record,
        *,
        forbid: Words = (),
        require: Words = (),
        prefix: str | Sequence[str] = "",
        forbid_unknown: bool = False,
        attention: bool = False,
        language: str | Sequence[str] | None = None,
        listener: SearchListener | None = None,
        **options: Any,
    ) -> Prediction | list[Prediction]:
        """Return the prediction for one input, or a list of predictions; options are those of `[decode]`, as in beam=5.

        One input is a string, a dict with the columns that the run was trained on, or a record.
        Several are a list of these, of tuples or of lists of words (for a tagger), a frame or a data set.

        Generated texts contain no word or phrase of `forbid` and all of `require`: one list for all inputs, or a list
        for each. Translations begin with `prefix`: one for all, or one for each. `forbid_unknown` excludes the unknown
        token, which a vocabulary of words may generate. With `attention` candidates have the attention weights.
        `language` is the one to translate to, for all inputs or for each, where a run has several. A `listener` is
        called at each step of the beam search for one input (`weft.decoding.SearchTrace` keeps all of them).
        """
        read_flag("attention", attention)
        if listener is not None and not callable(getattr(listener, "step", None)):
            raise wrong("listener", listener, "has no method step", "give a SearchTrace, or a class like it")
        several = not self.task.is_one_input(inputs)
        given = self.task.read_inputs(inputs)
        if given is not None:
            several = isinstance(given, list)
            records = given if isinstance(given, list) else [given]
        else:
            rows = enumerate(each_input(inputs)) if several else [(None, inputs)]
            records = [self.record(row, "inputs" if number is None else f"inputs[{number}]") for number, row in rows]
        records = self._in_language(records, language)
        wordings = read_wordings(
            len(records), forbid=forbid, require=require, prefix=prefix, forbid_unknown=forbid_unknown
        )
        if wordings or attention or listener is not None:
            self._check_writes("forbid, require, prefix, attention and listener")
        if not records:
            return []
        decode = self.decode(options)
        examples = encode(self.task, self.task.to_predict(records))
        answers = predict(
            self.task,
            self.model,
            examples,
            decode=decode,
            wordings=wordings,
            attention=attention,
            listener=listener,
        )
        return answers if several else answers[0]

    def draw(self, answers: Sequence[Prediction], path: str | Path) -> Path:
        """Draw answers of `predict` into a file (svg, png, html): the history of each forecast, and its intervals."""
        check_format(Path(path))
        return draw(self.task.draw(answers), Path(path))

    def stream(
        self,
        source: Any,
        *,
        forbid: Words = (),
        require: Words = (),
        prefix: str = "",
        forbid_unknown: bool = False,
        language: str | None = None,
        **options: Any,
    ) -> Iterator[str]:
        """Yield the first text of `predict(source)` in pieces, each as soon as no later step can change it."""
        self._check_writes("stream")
        wordings = read_wordings(1, forbid=forbid, require=require, prefix=prefix, forbid_unknown=forbid_unknown)
        examples = encode(self.task, self._in_language([self.record(source, "source")], language))
        return stream(self.task, self.model, examples, decode=self.decode(options), wordings=wordings)

    def score(self, inputs: Iterable[Any], *, candidates: int = 0) -> list[ScoredText]:
        """Return the log-probability and rank of each token of texts; a translator scores pairs of source and target.

        A tagger scores tagged sentences: all tags of a sentence together, and each by itself. Records from a reader of
        files are accepted too. `candidates` asks for the likeliest so many tokens, or tags, at each place.
        """
        if not self.task.scores_texts:
            others = " and ".join(name for name, task in TASKS.items() if task.scores_texts)
            where = f'task = "{self.config.task}"'
            raise ConfigError("gives no probability to texts", where=where, cure=f"runs of {others} do")
        candidates = read_whole("candidates", candidates, least=0)
        records = [self.task.record_to_score(item) for item in inputs]
        return score(self.task, self.model, encode(self.task, records), candidates=candidates) if records else []

    @overload
    def embed(self, texts: Iterable[Any], *, level: Literal["sentence"] = "sentence") -> NDArray[np.float32]: ...

    @overload
    def embed(self, texts: Iterable[Any], *, level: Literal["word", "token"]) -> list[Embedded]: ...

    def embed(self, texts: Iterable[Any], *, level: Level = "sentence") -> NDArray[np.float32] | list[Embedded]:
        """Return a vector for each text (N, D), or with level="word" or "token" one for each of its words or tokens.

        The vectors are the states of the network: of the encoder, or of a language model after each token. A text's own
        vector is their mean, or for a classifier what it pools them to. Word vectors of an embed run depend on no
        context. Texts are given as to `predict`; a single one is a list of one.
        """
        if isinstance(texts, str | Mapping | Record):
            raise DataError("a single text", where="texts", cure="give a list of texts")
        records = [self.record(row, f"texts[{number}]") for number, row in enumerate(each_input(texts))]
        return embed_records(self.task, self.model, records, level=level)

    def neighbours(self, text: str, n: int = 10, *, part: str | None = None) -> list[Neighbour]:
        """Return the n words nearest to a word, or to a sum and difference of words: "king - man + woman".

        The words of `text` itself do not count. A network has the embeddings of its tokens, in each `part` that reads
        some: a translator those of its "encoder" and "decoder".
        """
        return find_neighbours(self.task, self.model, text, n=n, part=part)

    def analogy(self, first: str, second: str, third: str, n: int = 1) -> list[Neighbour]:
        """Return the n best words w for: the first word is to the second as the third is to w."""
        return self.neighbours(f"{second} - {first} + {third}", n)

    def write_vectors(self, path: str | Path, *, format: Format | None = None) -> None:
        """Write the word vectors of an embed run: "word2vec" (text), "binary" or "glove"; see `weft.data.read_vectors`.

        Without a format, .bin is binary and others text; .gz and .xz are compressed.
        """
        words, vectors = word_table(self.task, self.model)
        write_vectors(path, words, vectors, format=format)

    def evaluate(
        self,
        data: Any,
        *,
        skip_bad_lines: bool = False,
        columns: Mapping[str, Any] | None = None,
        backtest: int | None = None,
        **options: Any,
    ) -> Evaluation:
        """Return scores on a file in the format the model was trained on, or on examples given in Python.

        Options are those of `[decode]`. `columns` are settings of `[data]` that differ here, as in {"text": "body"}.
        `backtest` forecasts the last so many horizons of each series, one after the other.
        """
        if backtest is not None and not self.task.rolls_origin:
            raise ConfigError(f"{self.config.task} forecasts no series", where="backtest", cure="remove it")
        if backtest is not None:
            backtest = read_whole("backtest", backtest, least=1)
        if options and not self.task.measures_answers:
            what = f"evaluation of {self.config.task} searches for no text"
            raise ConfigError(what, where=next(iter(options)), cure="remove it")
        decode = self.decode(options)
        bad = BadLines(skip=read_flag("skip_bad_lines", skip_bad_lines))
        if columns is not None and not isinstance(columns, Mapping):
            raise wrong("columns", columns, "is no dict of settings", 'as in {"text": "body"}')
        source = find_source(data, "data")
        layout = self._layout(columns or {})
        records = read_records(self.task, source, layout, bad)
        running = self.config.train.truncate is not None and self.config.data.running
        most = positions(self.config)
        examples = encode_evaluation(self.task, records, layout, positions=most, running=running, origins=backtest)
        found = evaluate(self.task, self.model, examples, decode=decode)
        if bad.count:
            found.details["skipped"] = str(bad)
        if examples.records is not None and examples.notes:
            found.details["overlong"] = ", ".join(examples.notes)
        return found

    def _layout(self, columns: Mapping[str, Any]) -> DataConfig:
        """Return the run's `[data]` with some settings changed."""
        if not columns:
            return self.config.data
        tree = self.config.tree()
        tree |= {"model": self.config.model, "data": tree["data"] | columns}
        return validate(tree, keep_unread=True).data

    def decode(self, options: Mapping[str, Any]) -> DecodeConfig:
        """Return the run's `[decode]` with some settings changed: a beam ends sampling, a temperature starts it.

        Raise for an option that has no effect.
        """
        if not self.task.writes:
            return self._answer_options(options)
        sample = options.get("sample", _implied_sampling(options))
        dropped = set() if sample is None else BEAM_SETTINGS if sample is True else SAMPLING_SETTINGS
        groups = options.get("groups")
        dropped = dropped | {"diversity"} if isinstance(groups, int) and groups == 1 else dropped
        own = {name: value for name, value in self.config.decode if name not in dropped}
        changed = dict(options) if sample is None else {"sample": sample, **options}
        found = validate({**dict(self.config), "decode": own | changed}, keep_unread=True).decode
        for name, why, cure, harmless in found.unread():
            if name in options and options[name] not in harmless:
                raise ConfigError(why, where=f"decode.{name} = {options[name]}", cure=cure)
        return found

    def _answer_options(self, options: Mapping[str, Any]) -> DecodeConfig:
        """Return the settings that a task reads which writes no text; raise for any other option."""
        for name in options:
            if name not in self.task.answer_options:
                raise ConfigError(f"{self.config.task} writes no text to search for", where=name, cure="remove it")
        own = dict(self.task.answer_options) | dict(options)
        # The n best tokens are a beam of one step.
        wanted = own.get("n_best")
        own |= {"beam": wanted} if isinstance(wanted, int) and 0 < wanted <= limits.BEAM else {}
        return validate({**dict(self.config), "decode": own}, keep_unread=True).decode

    def _check_writes(self, what: str) -> None:
        if not self.task.writes:
            others = " and ".join(name for name, task in TASKS.items() if task.writes)
            where = f'task = "{self.config.task}"'
            raise ConfigError(f"writes no text, so {what} mean nothing", where=where, cure=f"runs of {others} do")

    def record(self, source: Any, place: str = "input") -> Record:
        """Return an input of `predict` as a record, which it may already be."""
        if isinstance(source, Record):
            return source
        columns = self.task.columns(self.config.data)
        record, language = self.task.record(read_input(source, columns, place)), read_language(source, columns, place)
        return record if language is None else self.task.with_language(record, language)

    def _in_language(self, records: list[Record], language: str | Sequence[str] | None) -> list[Record]:
        """Return the inputs with the language to translate to, where one is given."""
        if language is None:
            return records
        cure = "give a language, or one for each input"
        languages = [language] * len(records) if isinstance(language, str) else read_texts("language", language, cure)
        if len(languages) != len(records):
            what = f"{len(languages)} are given for {counted(len(records), 'text')}"
            raise ConfigError(what, where="language", cure="one for all, or one for each")
        return [self.task.with_language(record, one) for record, one in zip(records, languages, strict=True)]

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, task={self.config.task!r})"


def _implied_sampling(options: Mapping[str, Any]) -> bool | None:
    """Return whether the options ask for sampling or for beam search; None if for neither."""
    return True if SAMPLING_SETTINGS & options.keys() else False if BEAM_SETTINGS & options.keys() else None
