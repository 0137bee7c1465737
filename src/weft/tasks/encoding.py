"""From records to examples, a chunk at a time, so that a text larger than memory goes through."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

from weft.data import Examples, Limit, RaggedBuilder, Record
from weft.errors import DataError
from weft.tasks.task import Task

CHUNK = 1000
"""Records that are encoded together."""

Item = TypeVar("Item")


def encode(task: Task, records: Iterable[Record], limit: Limit | None = None) -> Examples:
    """Without a limit there is a row for each record, and the records are kept for answers and scores."""
    builders: dict[str, RaggedBuilder] = {}
    kept: list[Record] | None = [] if limit is None else None
    for chunk in chunks(records):
        for name, rows in task.encode(chunk, limit).items():
            builders.setdefault(name, RaggedBuilder()).extend(rows)
        if kept is not None:
            kept += chunk
    columns = {name: builder.build() for name, builder in builders.items()}
    if not columns or not len(next(iter(columns.values()))):
        raise DataError("no example is left", where="data.max_length", cure="raise it")
    return Examples(columns, task.cost(columns), kept, limit.notes() if limit else ())


def chunks(items: Iterable[Item]) -> Iterator[list[Item]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, CHUNK)):
        yield chunk
