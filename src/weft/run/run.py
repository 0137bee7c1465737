"""A trained model with all it needs: predict, evaluate, look inside. `weft.train` makes one, `weft.load` reads one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from torch import nn

from weft.config import Config, validate
from weft.data import BadLines, Record, read_input
from weft.decoding import DecodeConfig
from weft.errors import ConfigError
from weft.evaluate import Evaluation, evaluate, predict, score, stream
from weft.run.given import each_input, find_source, read_records
from weft.run.save import read_report
from weft.tasks import TASKS, DataConfig, Prediction, Task, encode
from weft.tasks.generation import Scored
from weft.tasks.wording import Words, read_wordings

CHANCE = {"temperature", "top_k", "top_p", "min_p"}
"""Settings that ask for sampling."""

WIDTH = {"beam", "stop", "groups", "diversity"}
"""Settings that ask for beam search."""


class Run:
    """What training left behind, ready for use."""

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
        **options: Any,
    ) -> Prediction | list[Prediction]:
        """The answer for one input, or a list of answers for several; options are those of `[decode]`, as in beam=5.

        One input is a string, a dict with the columns that the run was trained on, or a record with a place to name.
        Several are a list of these, of tuples or of lists of words (for a tagger), a frame or a data set.

        Written texts contain no word or phrase of `forbid` and all of `require`: words for all of them, or one list for
        each. Translations begin with `prefix`: one for all, or one for each. `forbid_unknown` leaves out the unknown
        token, which a vocabulary of words may write. With `attention` candidates have the weights of attention.
        """
        several = not isinstance(inputs, str | Mapping | Record)
        rows = enumerate(each_input(inputs)) if several else [(None, inputs)]
        records = [self._asked(row, "inputs" if number is None else f"inputs[{number}]") for number, row in rows]
        wordings = read_wordings(
            len(records), forbid=forbid, require=require, prefix=prefix, forbid_unknown=forbid_unknown
        )
        if wordings or attention:
            self._check_writes("forbid, require, prefix and attention")
        if not records:
            return []
        decode = self.decode(options)
        examples = encode(self.task, records)
        answers = predict(self.task, self.model, examples, decode=decode, wordings=wordings, attention=attention)
        return answers if several else answers[0]

    def stream(
        self,
        source: Any,
        *,
        forbid: Words = (),
        require: Words = (),
        prefix: str = "",
        forbid_unknown: bool = False,
        **options: Any,
    ) -> Iterator[str]:
        """The text that `predict(source)` gives first, in pieces as soon as they are certain."""
        self._check_writes("stream")
        wordings = read_wordings(1, forbid=forbid, require=require, prefix=prefix, forbid_unknown=forbid_unknown)
        examples = encode(self.task, [self._asked(source, "source")])
        return stream(self.task, self.model, examples, decode=self.decode(options), wordings=wordings)

    def score(self, inputs: Iterable[str | tuple[str, str] | Record]) -> list[Scored]:
        """The log-probability and rank of each token of given texts; a translator scores pairs of source and target.

        Records as a reader of files gives them do as well.
        """
        if not self.task.scores_texts:
            others = " and ".join(name for name, task in TASKS.items() if task.scores_texts)
            where = f'task = "{self.config.task}"'
            raise ConfigError("gives no probability to texts", where=where, cure=f"runs of {others} do")
        records = [self.task.record_to_score(item) for item in inputs]
        return score(self.task, self.model, encode(self.task, records)) if records else []

    def evaluate(
        self, data: Any, *, skip_bad_lines: bool = False, columns: Mapping[str, Any] | None = None, **options: Any
    ) -> Evaluation:
        """Scores on a file of examples in the format the model was trained on, or on examples given in Python; options
        are those of `[decode]`. `columns` are settings of `[data]` that differ here, as in {"text": "body"}."""
        if options and not self.task.measures_answers:
            what = f"evaluation of {self.config.task} searches for no text"
            raise ConfigError(what, where=next(iter(options)), cure="remove it")
        decode = self.decode(options)
        bad = BadLines(skip=skip_bad_lines)
        source = find_source(data, "data")
        records = read_records(self.task, source, self._layout(columns or {}), bad)
        running = self.config.train.truncate is not None
        examples = encode(self.task, records, self.task.limit(training=False), running=running)
        found = evaluate(self.task, self.model, examples, decode=decode)
        if bad.count:
            found.details["skipped"] = str(bad)
        return found

    def _layout(self, columns: Mapping[str, Any]) -> DataConfig:
        """The run's `[data]` with some settings changed."""
        if not columns:
            return self.config.data
        tree = self.config.tree()
        tree |= {"model": self.config.model, "data": tree["data"] | columns}
        return validate(tree, keep_unread=True).data

    def decode(self, options: Mapping[str, Any]) -> DecodeConfig:
        """The run's decoding with some settings changed: a beam ends sampling, a temperature starts it.

        An option that nothing would read is an error.
        """
        if options and not self.task.writes:
            name = next(iter(options))
            raise ConfigError(f"{self.config.task} writes no text to search for", where=name, cure="remove it")
        sample = options.get("sample", True if CHANCE & options.keys() else False if WIDTH & options.keys() else None)
        dropped = set() if sample is None else WIDTH if sample else CHANCE
        dropped = dropped | {"diversity"} if options.get("groups") == 1 else dropped
        kept = {name: value for name, value in self.config.decode if name not in dropped}
        asked = dict(options) if sample is None else {"sample": sample, **options}
        found = validate({**dict(self.config), "decode": kept | asked}, keep_unread=True).decode
        for name, why, cure, harmless in found.unread():
            if name in options and options[name] not in harmless:
                raise ConfigError(why, where=f"decode.{name} = {options[name]}", cure=cure)
        return found

    def _check_writes(self, what: str) -> None:
        if not self.task.writes:
            others = " and ".join(name for name, task in TASKS.items() if task.writes)
            where = f'task = "{self.config.task}"'
            raise ConfigError(f"writes no text, so {what} mean nothing", where=where, cure=f"runs of {others} do")

    def _asked(self, source: Any, place: str) -> Record:
        """An input as a record, which it may already be."""
        if isinstance(source, Record):
            return source
        return self.task.record(read_input(source, self.task.columns(self.config.data), place))

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}, task={self.config.task!r})"
