"""Sequences of feature vectors in a TSV or CSV: one row per step, the rows of a sequence together.

sequence,x,y,label
walk-1,0.1,2.5,up           columns: the name of the sequence, the features, and the label of the whole sequence,
walk-1,0.3,2.4,up           which is the same in all its rows or stands in the first; for a tagger that of each row
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from weft.data.answers import Whole, make_record
from weft.data.badlines import BadLines
from weft.data.columns import OVERRIDE, Column, Key
from weft.data.example_columns import Columns, show_column
from weft.data.records import Tagged
from weft.data.steps import Steps, read_number
from weft.data.tables import Layout, Row, Table, read_table
from weft.errors import DataError

ALL = "*"
"""The setting `features = "*"`: all columns but those of the sequence and the label."""


class Sequence(NamedTuple):
    """The rows of one sequence, and the place of the first."""

    name: str
    place: str
    rows: list[Row]


class StepTable:
    """One pass over the sequences of a file; the column of labels may be missing unless it is `labelled`."""

    def __init__(
        self, name: str, columns: Columns, *, layout: Layout, labelled: bool, override: str = OVERRIDE, bad: BadLines
    ) -> None:
        wanted: dict[str, Column] = {"sequence": "sequence" if columns.sequence is None else columns.sequence}
        wanted |= {"features": columns.input} if columns.input != ALL else {}
        self.answer = columns.answer_setting
        wanted |= {self.answer: columns.answer} if columns.answer is not None else {}
        needed = [setting for setting in wanted if setting != self.answer or labelled]
        self.table: Table = read_table(name, wanted, needed=needed, layout=layout, override=override, bad=bad)
        self.features: tuple[Key, ...] | None = self.table.keys.get("features")
        self.bad = bad

    def __iter__(self) -> Iterator[Sequence]:
        """Yield the sequences; raises if the rows of one are not together."""
        seen: set[str] = set()
        for name, group in groupby(self.table, lambda row: self.table.text("sequence", row)):
            rows = list(group)
            if name in seen:
                cure = "sort the file by the column of the sequence"
                self.bad.report(DataError(f'more rows of the sequence "{name}"', where=rows[0].place, cure=cure))
                continue
            seen.add(name)
            yield Sequence(name, rows[0].place, rows)

    def steps(self, sequence: Sequence) -> Steps:
        """The numbers of a sequence."""
        if self.features is None:
            width = len(sequence.rows[0].cells)
            others = {key for keys in self.table.keys.values() for key in keys}
            self.features = tuple(place for place in range(width) if place not in others)
        names = self.table.columns
        rows = []
        for row in sequence.rows:
            cells: Any = row.cells
            rows.append(
                [
                    read_number(cells[key].strip(), names[int(key)] if names else f"column {key}", row.place)
                    for key in self.features
                ]
            )
        if not self.features:
            raise DataError("no column is left for features", where=sequence.place, cure="name them: data.features")
        return Steps.of(np.array(rows, dtype=np.float64))

    def label(self, sequence: Sequence) -> str:
        """The label of a whole sequence."""
        first = self.table.text(self.answer, sequence.rows[0])
        for row in sequence.rows[1:]:
            label = self.table.text(self.answer, row)
            if label not in ("", first):
                what = f'the label is "{label}", where the sequence "{sequence.name}" began with "{first}"'
                raise DataError(what, where=row.place, cure="give all rows of a sequence the same label")
        return first

    def tags(self, sequence: Sequence) -> tuple[str, ...]:
        """The label of each row."""
        tags = tuple(self.table.text(self.answer, row) for row in sequence.rows)
        if "" in tags:
            place = sequence.rows[tags.index("")].place
            raise DataError("the label is empty", where=place, cure="give each step a label")
        return tags


def read_step_rows(name: str, columns: Columns, layout: Layout, bad: BadLines) -> Iterator[Any]:
    """Yield a record for each sequence; a sequence with a bad row is reported as a whole."""
    table = StepTable(name, columns, layout=layout, labelled=True, bad=bad)
    for sequence in table:
        try:
            steps = table.steps(sequence)
            if columns.record is Tagged:
                record: Any = Tagged(steps.names, table.tags(sequence), sequence.place, steps)
            else:
                record = _answered(table, sequence, steps, columns)
        except DataError as error:
            bad.report(error)
            continue
        yield record


def _answered(table: StepTable, sequence: Sequence, steps: Steps, columns: Columns) -> Any:
    assert columns.answer is not None
    label, name = table.label(sequence), show_column(columns.answer)
    if not label and columns.predicted == "label":
        raise DataError("the label is empty", where=sequence.place, cure="fill it in or remove the sequence")
    whole = Whole("", None, steps)
    return make_record(columns.record, whole, label, name=name, separator=columns.separator, place=sequence.place)
