"""The columns that an example of a task is made of, in a table or in Python."""

from __future__ import annotations

import json
from typing import Final, NamedTuple

from weft.data.columns import Column
from weft.data.images import PixelShape
from weft.data.records import Labelled, ManyLabelled, Measured, Pair, Record, Tagged, Text

PREDICTED: Final[dict[type, str]] = {
    Labelled: "label",
    ManyLabelled: "labels",
    Measured: "number",
    Pair: "translation",
    Text: "continuation",
    Tagged: "tags",
}
"""The column for predictions in a table, by the type of the records."""


class Columns(NamedTuple):
    """The columns of an example of a task: its input, and its answer, if it has one."""

    record: type[Record]
    input: Column
    answer: Column | None = None
    joined: bool = False
    """The texts are parts of one running text."""
    lines: bool = False
    """Every file is plain text, whatever its suffix, as in training."""
    prediction: str | None = None
    """The name of predictions, where it does not follow from the type of record."""
    language: Column | None = None
    """The column with the language of a pair's target, if there is one."""
    many: bool = False
    """A pair may have several targets: in several columns, or in a list."""
    second: Column | None = None
    """The second text of a pair."""
    steps: bool = False
    """The input is a sequence of feature vectors: nested lists, or in a TSV or CSV the columns of a row per step."""
    sequence: Column | None = None
    """The column that names the sequence of a row."""
    separator: str = ","
    """The text between several labels."""
    pictures: bool = False
    """The source of a pair is a picture, or with `steps` its feature vectors, in one value of a row."""
    pixels: PixelShape | None = None
    """The shape to which pictures are decoded when a file is read; without it only their headers are read."""

    @property
    def predicted(self) -> str:
        """The column for predictions in a table."""
        return self.prediction or PREDICTED[self.record]

    @property
    def plain(self) -> bool:
        """Whether a record is one text and one label."""
        return self.record is Labelled and self.second is None and not self.steps

    @property
    def answer_setting(self) -> str:
        """The setting that names the column of a label, of several, of a number or of tags."""
        return "field" if self.record is Tagged else "label"

    def settings(self) -> dict[str, Column]:
        """The settings that name columns of a table of texts or nested lists, in the order expected of a file."""
        if self.pictures:
            named = {"features" if self.steps else "image": self.input, "caption": self.answer}
        elif self.record is Pair:
            named = {"source": self.input, "target": self.answer, "language": self.language}
        else:
            first = "features" if self.steps else "text"
            named = {first: self.input, "pair": self.second, self.answer_setting: self.answer}
        return {name: column for name, column in named.items() if column is not None}

    @property
    def width(self) -> int:
        """The number of values of an example without names."""
        language = self.answer is not None and self.language is not None
        return 1 + (self.second is not None) + (self.answer is not None) + language

    def example(self) -> str:
        """The forms of a record, for messages."""
        if self.answer is None and self.second is None:
            return "a text"
        named = (self.input, self.second, self.answer, self.language)
        names = [show_column(column) for column in named if column is not None]
        return f"a tuple ({', '.join(names)}) or a dict {{{', '.join(f'{json.dumps(name)}: …' for name in names)}}}"


def show_column(column: Column) -> str:
    return str(column) if isinstance(column, str | int) else " and ".join(map(str, column))
