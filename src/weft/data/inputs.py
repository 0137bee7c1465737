"""Reads files of inputs in every format that training reads, and writes them again with predictions added.

An `InputFile` yields the inputs row by row, and formats each row with its prediction (its answer): other cells, header
and order stay. The format is chosen by name, else by the suffix of the file.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Final

from weft.data.badlines import BadLines
from weft.data.captions import read_source
from weft.data.columns import Column
from weft.data.example_columns import Columns
from weft.data.input_file import Input, InputFile
from weft.data.picture_inputs import PathInputs, read_input
from weft.data.records import Tagged
from weft.data.sentences import SentenceFile, open_sentences
from weft.data.sources import STDIN, decode, raw_lines, suffix, without_end
from weft.data.step_rows import StepTable
from weft.data.steps import pick_steps
from weft.data.tables import Format, Layout, Row, Table, read_table
from weft.documents import to_json
from weft.errors import ConfigError, DataError, did_you_mean

PLAIN: Final = "text"
"""The format of one input per line."""

TABLES: Final[dict[str, Format]] = {"tsv": "tsv", "csv": "csv", "jsonl": "jsonl", "json": "json", "parquet": "parquet"}
SENTENCES: Final = ("conllu", "columns")

COLUMN_SUFFIXES: Final = (".tsv", ".conll", ".iob", ".iob2", ".bio")
"""The suffixes of files with a word and its tags on each line."""
SUFFIXES: Final = {
    ".tsv": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}


def formats_of(columns: Columns) -> tuple[str, ...]:
    """The formats in which a task accepts inputs."""
    if columns.steps and not columns.pictures:
        return tuple(TABLES)
    return (PLAIN, *SENTENCES) if columns.record is Tagged else (PLAIN, *TABLES)


def find_format(name: str, columns: Columns) -> str:
    """Return the format of a file by its suffix; standard input and any other file have plain lines.

    For taggers and language models a suffix means the same as in training.
    """
    if columns.steps and not columns.pictures:
        return SUFFIXES.get(suffix(name), "jsonl")
    if name == STDIN or columns.lines:
        return PLAIN
    if columns.record is Tagged:
        return "conllu" if suffix(name) == ".conllu" else "columns" if suffix(name) in COLUMN_SUFFIXES else PLAIN
    return SUFFIXES.get(suffix(name), PLAIN)


def open_inputs(
    name: str,
    columns: Columns,
    *,
    format: str | None = None,
    column: Column | None = None,
    layout: Layout,
    names: Sequence[str],
    tag: str | int | None = None,
) -> InputFile:
    """Open a file of inputs; `names` are the columns of an answer, `column` replaces the run's own input column.

    `tag` is the column of CoNLL-U for predicted tags.
    """
    known = formats_of(columns)
    if format is not None and format not in known:
        raise ConfigError(f'"{format}" is not a format here', where="--format", cure=did_you_mean(format, known))
    chosen = format or find_format(name, columns)
    if column is not None and chosen not in TABLES:
        cure = (
            f"leave it out, or give --format: {', '.join(TABLES)}" if columns.record is not Tagged else "leave it out"
        )
        raise ConfigError(f"{chosen} has no columns to choose from", where=f"--column {column}", cure=cure)
    if chosen in SENTENCES:
        return SentenceInputs(open_sentences(name, conllu=chosen == "conllu", field=tag))
    if chosen == PLAIN and columns.pictures:
        return PathInputs(name, steps=columns.steps, pixels=columns.pixels)
    if chosen == PLAIN:
        return LineInputs(name)
    columns = replace_input(columns, column)
    kind, override = layout._replace(format=TABLES[chosen]), "--column={column}"
    if columns.steps and TABLES[chosen] in ("tsv", "csv") and not columns.pictures:
        steps = StepTable(name, columns, layout=kind, labelled=False, override=override, bad=BadLines())
        return StepInputs(steps, names, each=columns.record is Tagged)
    settings = columns.settings()
    table = read_table(name, settings, needed=needed_settings(settings), layout=kind, override=override, bad=BadLines())
    return ObjectInputs(table, columns, names) if table.delimiter is None else CellInputs(table, columns, names)


def needed_settings(settings: Iterable[str]) -> list[str]:
    """The settings whose columns inputs must have; an answer's column may be missing."""
    return [setting for setting in settings if setting not in ("label", "field", "target", "language", "caption")]


def replace_input(columns: Columns, column: Column | None) -> Columns:
    """The columns with another input; of a pair both texts are named."""
    if column is None:
        return columns
    if columns.second is None:
        return columns._replace(input=column)
    if not isinstance(column, list) or len(column) != 2:
        cure = "name two: --column FIRST --column SECOND"
        raise ConfigError("the run reads pairs of texts", where=f"--column {column}", cure=cure)
    return columns._replace(input=column[0], second=column[1])


@dataclass
class LineInputs:
    """Plain text: one line in, one line out; a blank line stays blank. With `skip_bad` so is one that is not UTF-8."""

    name: str
    skip_bad: bool = False
    plain: ClassVar = True

    def __iter__(self) -> Iterator[Input]:
        for number, raw in raw_lines(self.name):
            place = f"{self.name}:{number}"
            try:
                line = without_end(decode(raw, self.name, number))
            except DataError as error:
                if not self.skip_bad:
                    raise
                yield Input(place, None, "", error=error)
                continue
            yield Input(place, line if line.strip() else None, line)

    def begin(self) -> str:
        return ""

    def write(self, item: Input, line: str, cells: Mapping[str, Any]) -> str:
        return f"{line}\n"

    def end(self) -> str:
        return ""


@dataclass
class CellInputs:
    """A TSV or CSV: the cells of the answer are new columns at the end of each row."""

    table: Table
    columns: Columns
    names: Sequence[str]
    plain: ClassVar = False

    def __iter__(self) -> Iterator[Input]:
        return _each_row(self.table, self.columns)

    def begin(self) -> str:
        if self.table.columns is None:
            return ""
        return self._join([*self.table.columns, *free_names(self.names, self.table.columns).values()])

    def write(self, item: Input, line: str, cells: Mapping[str, Any]) -> str:
        return self._join([*item.row.cells, *(_spell(cells.get(name, "")) for name in self.names)])

    def end(self) -> str:
        return ""

    def _join(self, cells: Sequence[str]) -> str:
        return join_cells(self.table, cells)


@dataclass
class StepInputs:
    """A TSV or CSV with a row per step: each row of a sequence gets the cells of its answer, or of its own step."""

    file: StepTable
    names: Sequence[str]
    each: bool = False
    """Whether a cell of an answer is a list with a value for each step."""
    plain: ClassVar = False

    def __iter__(self) -> Iterator[Input]:
        for sequence in self.file:
            yield Input(sequence.place, self.file.steps(sequence), sequence)

    def begin(self) -> str:
        names = self.file.table.columns
        return "" if names is None else join_cells(self.file.table, [*names, *free_names(self.names, names).values()])

    def write(self, item: Input, line: str, cells: Mapping[str, Any]) -> str:
        found = []
        for number, row in enumerate(item.row.rows):
            own = {name: cell[number] if self.each else cell for name, cell in cells.items()}
            found.append(join_cells(self.file.table, [*row.cells, *(_spell(own.get(name, "")) for name in self.names)]))
        return "".join(found)

    def end(self) -> str:
        return ""


def join_cells(table: Table, cells: Sequence[str]) -> str:
    """A line of a TSV or CSV like those of the table."""
    delimiter = table.delimiter or "\t"
    if len(delimiter) > 1 or (delimiter == "\t" and table.format == "tsv"):  # never quoted
        return delimiter.join(cells) + "\n"
    line = io.StringIO()
    csv.writer(line, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return line.getvalue()


@dataclass
class ObjectInputs:
    """JSON objects, one per line or in one array: the cells of the answer are new keys."""

    table: Table
    columns: Columns
    names: Sequence[str]
    plain: ClassVar = False
    taken: set[str] = field(default_factory=set, init=False)
    """The keys of all objects so far."""
    written: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.array = self.table.format == "json" and _is_array(self.table.name)

    def __iter__(self) -> Iterator[Input]:
        return _each_row(self.table, self.columns)

    def begin(self) -> str:
        return "[\n" if self.array else ""

    def write(self, item: Input, line: str, cells: Mapping[str, Any]) -> str:
        self.taken.update(item.row.cells)
        answer = {new: cells.get(name) for name, new in free_names(self.names, self.taken).items()}
        text = to_json({**item.row.cells, **answer})
        before = ",\n" if self.array and self.written else ""
        self.written += 1
        return f"{before}{text}" + ("" if self.array else "\n")

    def end(self) -> str:
        return ("\n" if self.written else "") + "]\n" if self.array else ""


@dataclass
class SentenceInputs:
    """A word per line: CoNLL-U gets the tags in their column, other files in a new last column."""

    file: SentenceFile
    plain: ClassVar = False

    def __iter__(self) -> Iterator[Input]:
        for sentence in self.file:
            yield Input(sentence.place, sentence.words or None, sentence)

    def begin(self) -> str:
        return ""

    def write(self, item: Input, line: str, cells: Mapping[str, Any]) -> str:
        tags, shares = cells.get("tags", ()), cells.get("probabilities")
        return self.file.write(item.row, tags, None if shares is None else [_spell(share) for share in shares])

    def end(self) -> str:
        return ""


def free_names(names: Sequence[str], taken: Any) -> dict[str, str]:
    """Return names for new columns: NAME, or predicted_NAME if the file has a column NAME."""
    used = {str(name).strip().casefold() for name in taken}
    found: dict[str, str] = {}
    for name in names:
        new = name
        while new.casefold() in used:
            new = f"predicted_{new}"
        used.add(new.casefold())
        found[name] = new
    return found


def _each_row(table: Table, columns: Columns) -> Iterator[Input]:
    return (row_input(table, row, columns) for row in table)


def row_input(table: Table, row: Row, columns: Columns) -> Input:
    """The input of one row of a table."""
    if columns.pictures:
        return read_input(row.place, row, partial(read_source, table, row, columns))
    if columns.steps:
        steps = pick_steps(partial(_look_up, table, row), columns.input, row.place)
        return Input(row.place, steps, row)
    first = next(iter(columns.settings()))
    if columns.second is not None:
        both = table.text(first, row), table.text("pair", row)
        return Input(row.place, both if all(both) else None, row)
    language = table.text("language", row) or None if table.has("language") else None
    return Input(row.place, table.text(first, row) or None, row, language)


def _look_up(table: Table, row: Row, key: str | int) -> Any:
    return table.look_up(row, str(key))


def _is_array(name: str) -> bool:
    """Whether a JSON file is one array; standard input is assumed to be one."""
    return name == STDIN or next((raw for _, raw in raw_lines(name) if raw.strip()), b"").lstrip().startswith(b"[")


def _spell(value: Any) -> str:
    """A cell on one line: numbers with four digits, texts without tabs and line ends."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, list):
        return to_json(value)
    return " ".join(str(value).replace("\t", " ").splitlines())
