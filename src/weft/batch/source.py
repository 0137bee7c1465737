"""Input files of a batch: JSON lines and Parquet, each cut into parts that can be read alone.

A part of JSON lines is a range of bytes, one of Parquet a range of rows. Rows are numbered from 1, in JSON lines by
their line, so that a message names a row as `weft predict` does.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

from weft.data import BadLines, Paths
from weft.data.jsonrows import Object, parse_objects
from weft.data.parquet import read_parquet
from weft.data.sources import MAX_LINE_BYTES, each_path
from weft.errors import DataError
from weft.extras import EXTRAS

SUFFIXES: Final = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
"""The formats that can be read in parts, by the suffix of a file."""


class Part(NamedTuple):
    """Consecutive rows of one file, which are answered together."""

    number: int
    file: int
    first: int
    """The number of its first row."""
    rows: int
    begin: int = 0
    """The bytes of JSON lines before it."""
    end: int = 0


class Source(NamedTuple):
    """An input file as it was found: where its parts begin, and a hash of all of it."""

    name: str
    path: Path
    format: Any
    digest: str
    rows: int
    """Lines of a JSON file, blank ones too; rows of a Parquet file."""
    marks: Sequence[int]
    """In JSON lines, the bytes before each group of `step` lines, and before the end."""
    first: Object | None
    """The first row."""


def find_files(names: Paths) -> list[str]:
    """Return the files of a list of files and folders; of a folder, its files in the order of their names."""
    found: list[str] = []
    for name in each_path(names):
        path = Path(name)
        if path.is_dir():
            inside = sorted(str(one) for one in path.iterdir() if one.suffix.lower() in SUFFIXES and one.is_file())
            if not inside:
                raise DataError("has no .jsonl and no .parquet file", where=name, cure="name the files")
            found += inside
        else:
            found.append(name)
    return found


def open_source(name: str, *, step: int, bad: BadLines) -> Source:
    """Read a file once, to hash it and to find where each `step` rows begin."""
    path = Path(name)
    kind = SUFFIXES.get(path.suffix.lower())
    if kind is None:
        cure = f"give {', '.join(SUFFIXES)}; decompress .gz and .xz first, or leave out --out"
        raise DataError("cannot be read in parts", where=name, cure=cure)
    if not path.is_file():
        raise DataError("no such file", where=name, cure="check the path")
    path = path.resolve()
    try:
        if kind == "parquet":
            with path.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            first = next(iter(read_parquet(name)), (0, None))[1]
            return Source(name, path, kind, digest, _open_parquet(path, name).metadata.num_rows, (), first)
        digest, rows, marks = _scan_lines(path, name, step)
        with path.open("rb") as file:
            lines = enumerate(file, start=1)
            # A bad line is reported again when its part is read, and counted there.
            first = next(parse_objects(lines, name, BadLines(skip=bad.skip)), (0, None))[1]
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror or error}", where=name, cure="check the file") from None
    return Source(name, path, kind, digest, rows, marks, first)


def _scan_lines(path: Path, name: str, step: int) -> tuple[str, int, list[int]]:
    """Return the hash of a file, its number of lines, and the bytes before each `step` lines and before its end."""
    digest, marks, position, number = hashlib.sha256(), [], 0, 0
    with path.open("rb") as file:
        while block := list(islice(file, step)):
            marks.append(position)
            for line in block:
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    what = f"a line of more than {MAX_LINE_BYTES:,} bytes"
                    raise DataError(what, where=f"{name}:{number}", cure="write one object per line")
                digest.update(line)
                position += len(line)
    return digest.hexdigest(), number, [*marks, position]


def cut(sources: Sequence[Source], *, step: int, rows: int) -> list[Part]:
    """Cut files into parts of so many rows, a multiple of `step`; a part is of one file."""
    parts: list[Part] = []
    for file, source in enumerate(sources):
        for first in range(0, source.rows, rows):
            count = min(rows, source.rows - first)
            place, last = first // step, -(-(first + count) // step)
            begin, end = (source.marks[place], source.marks[last]) if source.marks else (0, 0)
            parts.append(Part(len(parts), file, first + 1, count, begin, end))
    return parts


def read_part(path: Path, format: str, part: Part, *, name: str) -> bytes:
    """Return the rows of a part: lines as they are in the file, or of Parquet an Arrow stream."""
    if format == "parquet":
        return _read_rows(path, part, name)
    with path.open("rb") as file:
        file.seek(part.begin)
        return file.read(part.end - part.begin)


def rows_of(content: bytes, format: str, part: Part) -> Iterable[tuple[int, Any]]:
    """The rows of `read_part` with their numbers: lines in bytes, or of Parquet the values by their columns."""
    if format == "parquet":
        return enumerate(read_stream(content).to_pylist(), start=part.first)
    return enumerate(io.BytesIO(content), start=part.first)


def read_stream(content: bytes) -> Any:
    """The Arrow table of an Arrow stream."""
    import pyarrow.ipc

    return pyarrow.ipc.open_stream(content).read_all()


def read_schema(source: Source) -> Any:
    """The Arrow schema of a Parquet file, without notes of the program that wrote it."""
    return _open_parquet(source.path, source.name).schema_arrow.remove_metadata()


def _open_parquet(path: Path, name: str) -> Any:
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    try:
        return ParquetFile(path)
    except (ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"no Parquet file, or damaged: {reason:.200}", where=name, cure="write it again") from None


def _read_rows(path: Path, part: Part, name: str) -> bytes:
    import pyarrow

    begin, end = part.first - 1, part.first - 1 + part.rows
    tables = [group.slice(max(0, begin - at), end - max(begin, at)) for at, group in _groups(path, begin, end, name)]
    table, sink = pyarrow.concat_tables(tables), pyarrow.BufferOutputStream()
    with pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def _groups(path: Path, begin: int, end: int, name: str) -> Iterator[tuple[int, Any]]:
    """Yield the row groups that hold these rows, each with the number of rows before it."""
    metadata = _open_parquet(path, name).metadata
    at = 0
    for number in range(metadata.num_row_groups):
        rows = metadata.row_group(number).num_rows
        if at < end and at + rows > begin:
            yield at, _read_group(path, number, path.stat().st_mtime_ns, name)
        at += rows


@lru_cache(maxsize=1)
def _read_group(path: Path, number: int, changed: int, name: str) -> Any:
    """Read a row group; the last one is kept, because parts are read one after the other and may be much smaller."""
    from pyarrow import ArrowException

    try:
        return _open_parquet(path, name).read_row_group(number).replace_schema_metadata(None)
    except (ArrowException, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"damaged: {reason:.200}", where=name, cure="write it again") from None


def check_parquet(names: Iterable[str]) -> None:
    """Raise where one of these files, by its name, needs pyarrow and it is not installed."""
    for name in names:
        if Path(name).suffix.lower() == ".parquet":
            try:
                import pyarrow.parquet  # noqa: F401
            except ImportError:
                raise DataError("Parquet files need pyarrow", where=name, cure=EXTRAS["data"].install) from None
