"""Answering a file: its inputs in any format that training reads, and the columns that answers get in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.data import LAYOUT, Input, InputFile, Record, open_inputs
from weft.data.columns import Column
from weft.decoding import DecodeConfig
from weft.run.run import Run


def open_questions(
    run: Run,
    name: str,
    *,
    decode: DecodeConfig,
    format: str | None = None,
    columns: Sequence[str] = (),
    probabilities: bool = False,
) -> InputFile:
    """A file, or `-`, in the format given or that of its suffix; `columns` are read instead of those of the run."""
    data = run.config.data
    own = run.task.columns(data)
    return open_inputs(
        name,
        own,
        format=format,
        column=_read_columns(columns),
        layout=getattr(data, "layout", LAYOUT),
        names=run.task.answer_columns(own.predicted, n_best=decode.n_best, probabilities=probabilities),
        tag=getattr(data, "column", None) or getattr(data, "field", None),
    )


def ask(run: Run, item: Input) -> Record | None:
    """The record of an input, with its place; None where there is nothing to answer."""
    return None if item.source is None else replace(run.task.record(item.source), place=item.place)


def _read_columns(words: Sequence[str]) -> Column | None:
    """Columns as they are written on a command line: names, or numbers counted from 0."""
    found = [int(word) if word.isdecimal() else word for word in words]
    return None if not found else found[0] if len(found) == 1 else found
