"""Parquet files become JSON lines, a file for each, in the order of train, valid and test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from weft.data.convert.contract import PARTS, Converted, Converter
from weft.data.parquet import read_parquet
from weft.documents import to_json
from weft.errors import DataError


def read(files: list[str]) -> Iterator[Converted]:
    for part, name in zip(PARTS, files, strict=False):
        for number, row in read_parquet(name):
            yield json_line(part, row, f"{name}:{number}")


def json_line(part: str, row: dict[str, Any], place: str) -> Converted:
    """A row as a line of JSON; values that JSON does not have are an error."""
    try:
        return Converted(part, f"{to_json(row)}\n")
    except (TypeError, ValueError) as error:
        raise DataError(f"is no row of texts and numbers: {error}", where=place, cure="choose other columns") from None


PARQUET = Converter(
    "Parquet files for train, valid and test", read, suffix=".jsonl", header="", distinct=False, files=(1, 3)
)
