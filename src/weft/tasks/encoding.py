"""Encodes records as examples, a chunk at a time, so that a text may be larger than memory.

A chunk is encoded on all cores: the tokenizers have threads of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from weft.data import (
    VALUES,
    Examples,
    Limit,
    Pieces,
    Ragged,
    RaggedBuilder,
    Record,
    chunks,
    read_numbers,
    read_values,
)
from weft.data.batches import compact
from weft.data.corpus import TOKENS
from weft.documents import to_json
from weft.errors import DataError
from weft.tasks.task import Task

CHUNK_RECORDS = 1000
"""Records that are encoded together."""

EXAMPLES, LENGTHS = "examples.json", ".lengths"


def encode(task: Task, records: Iterable[Record], limit: Limit | None = None, *, running: bool = False) -> Examples:
    """Encode records. Without a limit, or with that of a model's positions, each record is one row, and the records are
    kept for answers and scores."""
    kept: list[Record] | None = [] if limit is None or limit.positions is not None else None
    columns = {name: builder.build() for name, builder in _collect(task, records, limit, kept=kept).items()}
    return _examples(task, columns, limit, kept, limit.notes() if limit else (), running=running)


def encode_evaluation(
    task: Task,
    records: Iterable[Record],
    data: Any,
    *,
    positions: int | None,
    running: bool = False,
    origins: int | None = None,
) -> Examples:
    """Encode the records of a file, read with these settings of `[data]`, for an evaluation of a model that has so many
    positions, or no limit."""
    gathered = task.gather(records, data, origins=origins)
    return encode(task, gathered, task.evaluation_limit(positions), running=running)


def write_examples(task: Task, records: Iterable[Record], limit: Limit, folder: Path) -> None:
    """Encode records into files of an empty folder, for `read_examples`."""
    builders = _collect(task, records, limit, folder=folder)
    for name, builder in builders.items():
        builder.finish().tofile(folder / f"{name}{LENGTHS}")
    about = {"columns": list(builders), "notes": limit.notes()}
    (folder / EXAMPLES).write_text(to_json(about), encoding="utf-8")


def read_examples(task: Task, folder: Path) -> Examples:
    """Read the examples that `write_examples` wrote; the tokens of a large text stay in their file.

    Raises ValueError, KeyError or TypeError if the folder holds anything else.
    """
    about = read_values(folder / EXAMPLES)
    columns: dict[str, Ragged] = {}
    for name in about["columns"]:
        if not name.isidentifier():
            raise ValueError(f"{name!r} is not the name of a column")
        lengths = read_numbers(folder / f"{name}{LENGTHS}", np.int32)
        columns[name] = Ragged.open(folder / f"{name}{VALUES}", lengths)
    if len({len(column) for column in columns.values()}) != 1:
        raise ValueError("the columns differ in length")
    return _examples(task, columns, task.limit(training=True), None, tuple(about["notes"]))


def _examples(
    task: Task,
    columns: Mapping[str, Ragged],
    limit: Limit | None,
    records: Sequence[Record] | None,
    notes: tuple[str, ...],
    *,
    running: bool = False,
) -> Examples:
    """The rows as encoded; of a text that each epoch cuts anew, the rows of the first epoch."""
    pieces = Pieces(columns[TOKENS], limit.max_length) if limit and limit.moving else None
    if pieces is not None:
        columns = {TOKENS: pieces.cut(0, seed=0)}
    elif limit is not None:
        columns = task.windows(columns)
    return Examples(columns, compact(task.cost(columns)), records, notes, running=running, pieces=pieces)


def _collect(
    task: Task,
    records: Iterable[Record],
    limit: Limit | None,
    *,
    kept: list[Record] | None = None,
    folder: Path | None = None,
) -> dict[str, RaggedBuilder]:
    """Encode all records into columns, in memory or in files of the folder."""
    builders: dict[str, RaggedBuilder] = {}
    for chunk in chunks(records, CHUNK_RECORDS):
        for name, rows in task.encode(chunk, limit).items():
            if name not in builders:
                builders[name] = RaggedBuilder(path=folder and folder / f"{name}{VALUES}")
            builders[name].extend(rows)
        if kept is not None:
            kept += chunk
    if not builders or not len(next(iter(builders.values()))):
        raise DataError("no example is left", where="data.max_length", cure="raise it")
    return builders
