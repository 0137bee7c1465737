"""Writes the output of a batch from its finished parts: each row of the input, and the fields of its answer."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from weft.batch.plan import JobFolder
from weft.batch.source import Part, Source, read_part, read_schema, read_stream, rows_of
from weft.data import BadLines
from weft.data.inputs import free_names
from weft.data.jsonrows import Object, parse_objects
from weft.disk import sync
from weft.documents import parse_json, to_json
from weft.errors import DataError, WeftError
from weft.run.folder.files import NO_FILE_LEFT, writing

FORMATS: Final = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
"""Formats of the output, by the suffix of its file."""


def output_format(out: Path) -> str:
    """Return the format of the output by its suffix."""
    found = FORMATS.get(out.suffix.lower())
    if found is None:
        cure = f"let it end in {', '.join(FORMATS)}"
        raise WeftError("has no format that a batch can write", where=f"--out {out}", cure=cure)
    if found == "parquet":
        try:
            import pyarrow.parquet  # noqa: F401
        except ImportError:
            raise WeftError("Parquet files need pyarrow", where=f"--out {out}", cure="pip install pyarrow") from None
    return found


class Rows:
    """The rows of the input that were answered, with their answers, part by part."""

    def __init__(self, folder: JobFolder, sources: Sequence[Source], parts: Sequence[Part]) -> None:
        self.folder, self.sources, self.parts = folder, sources, parts
        self.headers = [folder.read_header(part.number) for part in parts]
        self.keys = list(dict.fromkeys(key for header in self.headers for key in header["keys"]))
        fields = dict.fromkeys(name for header in self.headers for name in header["fields"])
        self.names = free_names(list(fields), self.keys)
        """The column of each field of an answer."""

    @property
    def count(self) -> int:
        return sum(header["rows"] for header in self.headers)

    def part(self, part: Part) -> Iterator[tuple[Object, Object]]:
        """Yield the values of each row and those of its answer, by their columns."""
        return zip(self.inputs(part), self.answers(part), strict=True)

    def inputs(self, part: Part) -> Iterator[Object]:
        source = self.sources[part.file]
        kept = {number for first, last in self.headers[part.number]["numbers"] for number in range(first, last + 1)}
        content = read_part(source.path, source.format, part, name=source.name)
        rows = rows_of(content, source.format, part)
        objects = rows if source.format == "parquet" else parse_objects(rows, source.name, BadLines(skip=True))
        return (values for number, values in objects if number in kept)

    def table(self, part: Part) -> Any:
        """The rows of a part of a Parquet file as an Arrow table."""
        source = self.sources[part.file]
        found = read_stream(read_part(source.path, source.format, part, name=source.name))
        ranges = self.headers[part.number]["numbers"]
        kept = [number - part.first for first, last in ranges for number in range(first, last + 1)]
        return found if len(kept) == len(found) else found.take(kept)

    def answers(self, part: Part) -> Iterator[Object]:
        with self.folder.part(part.number).open("rb") as file:
            next(file)
            for line in file:
                answer = parse_json(line)
                yield {
                    new: (answer or {}).get(name) for name, new in self.names.items() if not answer or name in answer
                }


def write_output(rows: Rows, out: Path, format: str) -> None:
    """Write the output, whole or not at all."""
    temporary = rows.folder.path / "output.tmp"
    with writing(out, cure=NO_FILE_LEFT):
        _write_parquet(rows, temporary) if format == "parquet" else _write_lines(rows, temporary)
        sync(temporary)
        temporary.replace(out)
        sync(out.parent)


def _write_lines(rows: Rows, path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as file:
        for part in rows.parts:
            plain: Callable[[Object], Object] = dict
            if rows.sources[part.file].format == "parquet":
                plain = partial(_plain_row, name=rows.sources[part.file].name)
            for values, answer in rows.part(part):
                file.write(to_json({**plain(values), **answer}) + "\n")


def _plain_row(values: Object, name: str) -> Object:
    return {key: _plain(value) for key, value in values.items()}


def _plain(value: Any) -> Any:
    """A value of Parquet as JSON has it: times in ISO 8601, decimals as text, bytes in base 64."""
    if value is None or isinstance(value, str | bool | int | float):
        return value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return str(value)


def _write_parquet(rows: Rows, path: Path) -> None:
    import pyarrow
    from pyarrow.parquet import ParquetWriter

    schema = _find_schema(rows)
    with ParquetWriter(path, schema, compression="zstd") as writer:
        for part in rows.parts:
            left = _input_columns(rows, part)
            answers = list(rows.answers(part))
            columns = [
                _cast(left[field.name], field, rows, part)
                if field.name in left
                else pyarrow.array([answer.get(field.name) for answer in answers], type=field.type)
                for field in schema
            ]
            writer.write_table(pyarrow.Table.from_arrays(columns, schema=schema))


def _input_columns(rows: Rows, part: Part) -> dict[str, Any]:
    """The columns of a part of the input: those of Parquet as they are, or lists of values of JSON."""
    if rows.sources[part.file].format == "parquet":
        table = rows.table(part)
        return {name: table.column(name) for name in table.column_names}
    found = list(rows.inputs(part))
    return {key: [values.get(key) for values in found] for key in rows.keys}


def _cast(column: Any, field: Any, rows: Rows, part: Part) -> Any:
    import pyarrow

    return pyarrow.array(column, type=field.type) if isinstance(column, list) else column.cast(field.type)


def _find_schema(rows: Rows) -> Any:
    """The types of all columns, over all parts: those of the input files, then those of the answers."""
    import pyarrow

    found: list[Any] = [read_schema(source) for source in rows.sources if source.format == "parquet"]
    for part in rows.parts:
        if rows.sources[part.file].format != "parquet":
            found.append(_infer(_input_columns(rows, part), rows.sources[part.file].name))
    for part in rows.parts:
        answers = list(rows.answers(part))
        columns = {name: [answer.get(name) for answer in answers] for name in rows.names.values()}
        found.append(_infer(columns, str(rows.folder.part(part.number))))
    try:
        return pyarrow.unify_schemas(found, promote_options="permissive")
    except pyarrow.ArrowException as error:
        reason = str(error).partition("\n")[0]
        cure = "write JSON lines, which have no types: --out FILE.jsonl"
        raise DataError(f"a column has values of several types: {reason:.200}", where="--out", cure=cure) from None


def _infer(columns: Mapping[str, list[Any]], name: str) -> Any:
    import pyarrow

    fields = []
    for key, values in columns.items():
        try:
            fields.append((key, pyarrow.array(values).type))
        except (pyarrow.ArrowException, OverflowError) as error:
            what = f'the column "{key}" has values of several types: {str(error).splitlines()[0]:.200}'
            cure = "write JSON lines, which have no types: --out FILE.jsonl"
            raise DataError(what, where=name, cure=cure) from None
    return pyarrow.schema(fields)
