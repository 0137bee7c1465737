"""The part of a task's contract on its records: what is found in them, how they are divided, and the inputs of
predictions. A task whose records are examples that do not depend on each other leaves all of it as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from weft.data import BadLines, Columns, Corpus, InputFile, Objects, Record, open_inputs
from weft.data.columns import Column
from weft.data.sources import STDIN
from weft.data.tables import LAYOUT
from weft.errors import ConfigError
from weft.tasks.sections import Tree


class Division(NamedTuple):
    """The records to learn from, those set aside as `valid` or `test` where there is no file for that, and notes."""

    train: Corpus
    aside: Mapping[str, Corpus]
    notes: list[str]


class WithRecords:
    """Records that may be divided at random, and inputs that are read one by one."""

    name: str
    data: Any
    reads_text: bool = True
    """Whether its inputs are texts: there is a section `[text]`."""
    answers_rows: bool = True
    """Whether each row of a table is an input by itself, so that a part of a table can be answered alone."""
    reads_files: bool = False
    """Whether an input may be the path of a file that is one input: a picture, a table of numbers."""
    prediction_hint: str = "type a line, get an answer (Ctrl-D ends)"
    """A phrase for `weft predict RUN` in the summary of a training."""
    min_valid_examples: int = 10
    """Validation examples by which the best model is chosen; with fewer, short ones the last model is kept."""
    size_unit: str = "characters"
    """The unit of the size of a record."""
    rolls_origin: bool = False
    """Whether an evaluation may be of the last so many answers of each record (`gather` reads `origins`)."""

    @staticmethod
    def columns(data: Any) -> Columns:
        """The columns of a table, or of examples given in Python, that a record is made of, and the type of record."""
        raise NotImplementedError

    @classmethod
    def read_objects(cls, source: Objects, data: Any, bad: BadLines) -> Iterator[Any]:
        """The records of Python data."""
        return source.read(cls.columns(data), bad)

    @staticmethod
    def find_settings(records: Iterable[Any], data: Any) -> tuple[Tree, list[str]]:
        """Settings of `[data]` that the training records decide where the configuration leaves them open, and notes."""
        return {}, []

    @staticmethod
    def divide(records: Corpus, data: Any) -> Division | None:
        """The training records in parts; None for a task whose records may be divided at random."""
        return None

    @staticmethod
    def follow(earlier: Iterable[Any], later: Iterable[Any]) -> Iterable[Any]:
        """The records of validation or test data, given those before them: with their past where they continue it."""
        return later

    @staticmethod
    def order(records: Iterable[Any]) -> Iterable[Any]:
        """The training records in the order in which they are encoded."""
        return records

    @staticmethod
    def content(records: Iterable[Any], data: Any) -> str | None:
        """A hash of all that examples of these training records are made of, where `caches` is false and they are worth
        keeping for the next run."""
        return None

    def read_inputs(self, inputs: Any) -> list[Any] | Record | None:
        """Inputs given in Python as records, or one input as a record; None for a task that reads them one by one."""
        return None

    def input_columns(self) -> Columns:
        """The columns of a file of inputs."""
        return self.columns(self.data)

    def open_inputs(
        self, name: str | None, *, format: str | None, column: Column | None, names: list[str]
    ) -> InputFile:
        """A file of inputs, or standard input; `names` are the columns of an answer."""
        data = self.data
        return open_inputs(
            name or STDIN,
            self.input_columns(),
            format=format,
            column=column,
            layout=getattr(data, "layout", LAYOUT),
            names=names,
            tag=getattr(data, "column", None) or getattr(data, "field", None),
        )

    def draw(self, answers: Sequence[Any]) -> Any:
        """The chart of some answers, for a task that has one."""
        raise ConfigError("has no picture of its answers", where=f'task = "{self.name}"', cure="forecast has one")

    def to_predict(self, records: Sequence[Any]) -> Sequence[Any]:
        """Inputs as `encode` reads them, without an answer."""
        return records
