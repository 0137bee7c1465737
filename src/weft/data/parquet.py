"""Parquet files, a batch of rows at a time, through pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from weft.errors import DataError, WeftError

BATCH_ROWS: Final = 1024


def read_parquet(name: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the number, from one, and the values of every row."""
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError:
        raise WeftError("Parquet files need pyarrow", where=name, cure="pip install pyarrow") from None
    if not Path(name).is_file():
        raise DataError("no such file", where=name, cure="check the path")
    number = 0
    try:
        with ParquetFile(name) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                for row in batch.to_pylist():
                    number += 1
                    yield number, row
    except (ArrowException, OSError) as error:
        where = f"{name}:{number + 1}" if number else name
        reason = str(error).partition("\n")[0]
        raise DataError(f"no Parquet file, or damaged: {reason:.200}", where=where, cure="write it again") from None
